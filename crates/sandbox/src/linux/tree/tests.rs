use super::*;

#[test]
fn a_name_with_spaces_brackets_and_no_utf8_does_not_shift_the_fields() {
    let mut stat = b"42 (a) Z 1 \xff".to_vec();
    stat.extend_from_slice(b") S 7 8 9 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 555 0 0\n");
    let process = parse(42, &stat).unwrap();
    let pid = Pid::from_raw(42).unwrap();
    assert_eq!(process, Process { pid, parent: 7, group: 8, zombie: false, started: 555 });
    assert_eq!(parse(42, b"42 (a"), None);
    assert_eq!(parse(42, b"42 (a) S 1"), None);
}

#[test]
fn this_process_is_seen_as_the_system_describes_it() {
    let me = look(getpid().as_raw_pid()).unwrap();
    assert_eq!(me.pid, getpid());
    assert_eq!(me.group, getpgrp().as_raw_pid());
    assert!(!me.zombie);
    assert!(me.started > 0);
}
