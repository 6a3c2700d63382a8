//! The file itself: links, modes, writers at once.

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;

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
    assert!(end.stderr.contains("settings.toml` is not a regular file but a directory"));

    let large = with_settings(&"#\n".repeat(600_000));
    let end = config(&large, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("more than the limit of 1048576"), "{}", end.stderr);

    let bin = bin();
    bin.file("file", "").unwrap();
    let bin = bin.env("REINS_HOME", "file/home");
    let end = config(&bin, &["set", "bash.timeout_ms", "5"]).await;
    assert_eq!(end.code, Some(2));
    assert!(end.stderr.contains("the home cannot be made at"), "{}", end.stderr);
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
