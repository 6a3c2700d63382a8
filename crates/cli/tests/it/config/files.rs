//! The file itself: links, modes, writers at once.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

use reins_testkit::{Bin, Finished, needs};

use super::{bin, config, file_of, refused, text_of, with_settings};

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

const BASH: &str = "[[row]]\nid = \"bash\"\n[row.config]\ntimeout_ms = 5\n";

#[tokio::test]
async fn a_home_and_a_file_that_are_made_are_private() {
    let bin = bin();
    let home = bin.project().join("deep/home");
    let bin = bin.env("REINS_HOME", &home);
    let end = config(&bin, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert_eq!(std::fs::read_to_string(home.join("settings.toml")).unwrap(), BASH);
    assert_eq!((mode(&home), mode(&home.join("settings.toml"))), (0o700, 0o600));
}

#[tokio::test]
async fn a_file_keeps_its_mode_and_nothing_else_is_left() {
    let bin = with_settings(BASH);
    set_mode(&file_of(&bin), 0o640);
    let before = std::fs::metadata(file_of(&bin)).unwrap().ino();
    assert_eq!(config(&bin, &["set", "bash.timeout_ms", "6"]).await.code, Some(0));
    assert_eq!(mode(&file_of(&bin)), 0o640);
    let after = std::fs::metadata(file_of(&bin)).unwrap().ino();
    assert_ne!(after, before, "written beside and renamed");
    let mut names: Vec<String> = std::fs::read_dir(bin.home())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["settings.lock", "settings.toml"]);
}

#[tokio::test]
async fn a_link_stays_a_link() {
    let bin = bin();
    bin.file("dots/reins.toml", BASH).unwrap();
    symlink("../project/dots/reins.toml", file_of(&bin)).unwrap();
    assert_eq!(config(&bin, &["set", "bash.timeout_ms", "6"]).await.code, Some(0));
    assert!(file_of(&bin).is_symlink());
    let target = bin.project().join("dots/reins.toml");
    assert_eq!(std::fs::read_to_string(&target).unwrap(), BASH.replace('5', "6"));
    assert!(!target.is_symlink());
}

#[tokio::test]
async fn a_link_to_nothing_gets_its_target() {
    let bin = bin();
    std::fs::create_dir(bin.project().join("dots")).unwrap();
    symlink("../project/dots/reins.toml", file_of(&bin)).unwrap();
    let end = config(&bin, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    assert!(file_of(&bin).is_symlink());
    assert_eq!(text_of(&bin), BASH);

    let bin = self::bin();
    symlink("../project/no/reins.toml", file_of(&bin)).unwrap();
    let end = config(&bin, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("reins.toml: No such file or directory"), "{}", end.stderr);
    assert!(!file_of(&bin).exists());
}

#[tokio::test]
async fn what_is_no_file_is_refused() {
    let folder = bin();
    std::fs::create_dir(file_of(&folder)).unwrap();
    let end = config(&folder, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!(end.code, Some(2));
    let whole = format!("`{}` is not a regular file but a directory", file_of(&folder).display());
    assert!(end.stderr.contains(&whole), "{}", end.stderr);

    let large = with_settings(&"#\n".repeat(600_000));
    let end = config(&large, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("more than the limit of 1048576"), "{}", end.stderr);

    let bin = bin();
    bin.file("file", "").unwrap();
    let file = bin.project().join("file");
    for home in ["file", "file/home"] {
        let place = self::bin().env("REINS_HOME", bin.project().join(home)).env("EDITOR", "true");
        for args in CHANGES.iter().chain(&[&["check"][..]]) {
            let end = config(&place, args).await;
            let message = format!(
                "reins: {} is not a folder, so sessions cannot be kept below it; set REINS_HOME to \
                 another place\n",
                file.display()
            );
            assert_eq!((end.code, end.stderr), (Some(2), message), "{home} {args:?}");
        }
    }
}

/// Whatever writes settings.
const CHANGES: [&[&str]; 3] =
    [&["set", "bash.timeout_ms", "5"], &["unset", "bash.timeout_ms"], &["edit"]];

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn a_home_of_another_user_is_refused_and_stays_as_it_was() {
    // Everywhere the root folder is that of user 0.
    let is_root = rustix::process::geteuid().is_root();
    let bin = bin().env("EDITOR", "true");
    let (place, owner) = match is_root {
        true => (bin.project(), 65534),
        false => (Path::new("/").to_owned(), 0),
    };
    if is_root {
        std::os::unix::fs::chown(&place, Some(owner), Some(owner)).unwrap();
    }
    let before = names(&place);
    let says = format!(
        "reins: {} belongs to user {owner}, not to you; set REINS_HOME to a folder of your own\n",
        place.display()
    );
    // The administrator does not make a home in their folders either.
    let homes = if is_root { vec![place.clone(), place.join("new")] } else { vec![place.clone()] };
    let mut bin = bin;
    for home in homes {
        bin = bin.env("REINS_HOME", &home);
        for args in CHANGES {
            let end = config(&bin, args).await;
            assert_eq!((end.code, &end.stderr), (Some(2), &says), "{home:?} {args:?}");
        }
    }
    assert_eq!(names(&place), before);
}

#[tokio::test]
async fn a_home_that_is_closed_is_not_fine() {
    if !needs("setpriv").unwrap() {
        return;
    }
    let bin = Bin::new("setpriv").unwrap();
    set_mode(&bin.home(), 0o000);
    // The administrator may look into everything, unless without the capability.
    let root = rustix::process::geteuid().is_root();
    let dropped: &[&str] = if root { &["--bounding-set", "-all"] } else { &[] };
    let args = [env!("CARGO_BIN_EXE_reins"), "config", "check"];
    let end: Finished = bin.run(dropped.iter().chain(&args)).await.unwrap();
    set_mode(&bin.home(), 0o700);
    let message = format!(
        "reins: no permission for {}; change its owner or mode, or set REINS_HOME to another \
         place\n",
        bin.home().display()
    );
    assert_eq!((end.code, end.stdout.as_str(), end.stderr), (Some(2), "", message));
}

#[tokio::test]
async fn a_file_with_two_names_is_not_written_in_place() {
    let bin = with_settings(BASH);
    let twin = bin.project().join("twin");
    std::fs::hard_link(file_of(&bin), &twin).unwrap();
    let message = "a new file cannot take the place of `{file}`: it has 2 names (hard links)\n\
                   hint: writing into the old file could leave half of it; make it a file of its \
                   own, or change it with `reins config edit` · the settings are as they were";
    refused(&bin, &["set", "bash.timeout_ms", "6"], message).await;
    refused(&bin, &["unset", "bash.timeout_ms"], message).await;
    std::fs::remove_file(&twin).unwrap();
    assert_eq!(config(&bin, &["set", "bash.timeout_ms", "6"]).await.code, Some(0));
}

#[tokio::test]
async fn what_a_killed_writer_left_goes_and_nothing_else() {
    const LEFT: [&str; 2] = [".reins-0123456789abcdef.tmp", ".settings-a1B2c3.tmp"];
    const OTHERS: [&str; 5] =
        [".reins-0123.tmp", ".reins-0123456789abcdef", ".settings-x", "a.tmp", "settings.toml.tmp"];
    for args in CHANGES {
        let bin = with_settings(BASH).env("EDITOR", "true");
        // Behind a link the copies are in the target's folder, too.
        bin.file("dots/reins.toml", BASH).unwrap();
        let linked = self::bin().env("EDITOR", "true");
        symlink(bin.project().join("dots/reins.toml"), file_of(&linked)).unwrap();
        for (by, folder) in [(&bin, "../home"), (&linked, "dots")] {
            let make = |name: &str| bin.file(&format!("{folder}/{name}"), BASH).unwrap();
            let folder = bin.project().join(folder);
            let before = names(&folder);
            for name in LEFT.iter().chain(&OTHERS) {
                make(name);
            }
            let fake = folder.join(".reins-fedcba9876543210.tmp");
            std::fs::create_dir(&fake).unwrap();
            let theirs = folder.join(".reins-1111111111111111.tmp");
            let is_root = rustix::process::geteuid().is_root();
            if is_root {
                make(".reins-1111111111111111.tmp");
                std::os::unix::fs::chown(&theirs, Some(65534), None).unwrap();
            }
            let end = config(by, args).await;
            assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""), "{args:?}");
            let mut after = names(&folder);
            assert!(fake.is_dir() && theirs.exists() == is_root, "{args:?}");
            after.retain(|name| !name.contains("fedcba") && !name.contains("1111111"));
            after.retain(|name| name != "settings.lock" && !before.contains(name));
            let mut others = OTHERS.to_vec();
            others.sort_unstable();
            assert_eq!(after, others, "{args:?}");
        }
    }
}

#[tokio::test]
async fn twenty_at_once_lose_nothing() {
    let bin = with_settings("# mine\n[[row]]\nid = 'deepseek'\nconfig = { vendor = 'deepseek' }\n");
    let mut all = Vec::new();
    for at in 0..20 {
        let key = format!("deepseek.headers.x-{at}");
        let value = format!("value {at}");
        all.push(bin.spawn(["config", "set", &key, &value], None).await.unwrap());
    }
    for running in all {
        let end = running.finish().await.unwrap();
        assert_eq!((end.code, end.stderr.as_str()), (Some(0), ""));
    }
    let text = text_of(&bin);
    assert!(text.starts_with("# mine\n[[row]]\nid = 'deepseek'\n"), "{text}");
    for at in 0..20 {
        assert!(text.contains(&format!("x-{at} = \"value {at}\"")), "{at} in {text}");
    }
    assert_eq!(config(&bin, &["check"]).await.code, Some(0));
}

#[tokio::test]
async fn a_writer_that_does_not_end_is_not_waited_for_for_ever() {
    let bin = with_settings(BASH);
    let path = bin.home().join("settings.lock");
    let lock = std::fs::File::create(&path).unwrap();
    lock.lock().unwrap();
    let message = format!(
        "{}: another process has been changing the settings for 10 s\nhint: try again when it is \
         done",
        path.display()
    );
    refused(&bin, &["set", "bash.timeout_ms", "6"], &message).await;
    lock.unlock().unwrap();
    assert_eq!(config(&bin, &["set", "bash.timeout_ms", "6"]).await.code, Some(0));
}
