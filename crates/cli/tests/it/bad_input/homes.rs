//! Homes that cannot be used, and directories that are gone.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use reins_testkit::{Bin, Finished, have, needs, needs_condition};

use super::{bin, object};
use crate::copy::copy_binary;

/// A run with this home; not a byte may appear anywhere.
async fn with_home(home: &Path) -> Finished {
    let bin = bin().env("DEEPSEEK_API_KEY", "a-key").env("REINS_HOME", home);
    let end = bin.run(["run", "--output", "json", "hi"]).await.unwrap();
    assert_eq!(std::fs::read_dir(bin.home()).unwrap().count(), 0);
    end
}

fn assert_home_refused(end: &Finished, message: &str) {
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert_eq!(end.stderr, format!("reins: {message}\n"));
    let object = object(end);
    assert_eq!(object["session"], serde_json::Value::Null);
}

#[tokio::test]
async fn a_home_that_is_a_file_or_below_one_is_refused() {
    let place = bin();
    place.file("file", "mine").unwrap();
    let file = place.project().join("file");
    let message = format!(
        "{} is not a folder, so sessions cannot be kept below it; set REINS_HOME to another place",
        file.display()
    );
    for home in [file.clone(), file.join("home"), file.join("a/b/c")] {
        assert_home_refused(&with_home(&home).await, &message);
    }
    assert_eq!(std::fs::read(&file).unwrap(), b"mine");
}

#[tokio::test]
async fn a_home_that_the_system_cannot_make_is_refused() {
    let place = bin();
    let long = place.project().join("n".repeat(300));
    let cases = [
        (long, "File name too long (os error 36)"),
        ("/proc/no-such".into(), "No such file or directory (os error 2)"),
    ];
    for (home, reason) in cases {
        let message = format!(
            "the home cannot be made at {}: {reason}; set REINS_HOME to a place where you can \
             make folders",
            home.display()
        );
        assert_home_refused(&with_home(&home).await, &message);
    }
}

#[tokio::test]
async fn a_file_where_a_folder_belongs_is_refused_and_stays() {
    let place = bin();
    place.file("home/sessions", "mine").unwrap();
    let home = place.project().join("home");
    let message = format!(
        "{} is not a folder, so sessions cannot be kept below it; set REINS_HOME to another place",
        home.join("sessions").display()
    );
    assert_home_refused(&with_home(&home).await, &message);
    assert_eq!(std::fs::read(home.join("sessions")).unwrap(), b"mine");
}

#[tokio::test]
async fn a_folder_where_a_file_belongs_is_refused() {
    let place = bin();
    place.file("home/settings.toml/file", "").unwrap();
    let home = place.project().join("home");
    let message = format!(
        "{}: a folder, not a file; correct or remove it",
        home.join("settings.toml").display()
    );
    assert_home_refused(&with_home(&home).await, &message);
}

/// A shell that runs `script` with `$reins` as the binary and `$home` as a home of its own.
fn shell(program: &str) -> Bin {
    let bin = Bin::new(program).unwrap();
    let home = bin.project().join("own");
    std::fs::create_dir(&home).unwrap();
    bin.env("reins", env!("CARGO_BIN_EXE_reins")).env("home", home).env("DEEPSEEK_API_KEY", "a-key")
}

#[tokio::test]
async fn a_home_on_a_read_only_mount_is_refused() {
    if !needs("unshare").unwrap() {
        return;
    }
    // In a mount namespace of its own, which ends with the command.
    let bin = shell("unshare");
    let run = async |script: &str| bin.run(["-rm", "sh", "-c", script]).await.unwrap();
    let mount = "mount -t tmpfs -o ro none \"$home\"";
    let can_mount = run(mount).await.code == Some(0);
    if !needs_condition("a mount", can_mount).unwrap() {
        return;
    }
    let end =
        run(&format!("{mount} && REINS_HOME=\"$home\" \"$reins\" run --output json hi")).await;
    let home = bin.project().join("own");
    let message = format!(
        "{} is on a read-only file system; set REINS_HOME to a place that can be written",
        home.display()
    );
    assert_home_refused(&end, &message);
}

#[tokio::test]
async fn a_home_of_another_user_is_refused() {
    if !is_root().await {
        // Everywhere the root folder is that of user 0.
        let message =
            "/ belongs to user 0, not to you; set REINS_HOME to a folder of your own".to_owned();
        assert_home_refused(&with_home(Path::new("/")).await, &message);
        return;
    }
    if !needs("setpriv").unwrap() {
        return;
    }
    let bin = shell("setpriv");
    // The folder of a test is closed to others, and so may be the one of the binary.
    let root = bin.project().parent().unwrap().to_owned();
    std::fs::set_permissions(&root, Permissions::from_mode(0o755)).unwrap();
    let copy = root.join("reins");
    copy_binary(&copy).await;
    let bin = bin.env("reins", &copy);
    let own = bin.project().join("own");
    let script = "REINS_HOME=\"$home\" \"$reins\" run --output json hi";
    let nobody = ["--reuid", "65534", "--regid", "65534", "--clear-groups", "sh", "-c", script];
    let end = bin.run(nobody).await.unwrap();
    let message = format!(
        "{} belongs to user 0, not to you; set REINS_HOME to a folder of your own",
        own.display()
    );
    assert_home_refused(&end, &message);

    // Theirs, and closed to us.
    std::fs::set_permissions(&own, Permissions::from_mode(0o700)).unwrap();
    let end = bin.run(nobody).await.unwrap();
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert!(end.stderr.contains(&own.display().to_string()), "{}", end.stderr);
    assert!(end.stderr.contains("set REINS_HOME to"), "{}", end.stderr);
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0);
}

async fn is_root() -> bool {
    have("id") && Bin::new("id").unwrap().run(["-u"]).await.unwrap().stdout == "0\n"
}

#[tokio::test]
async fn a_current_directory_that_is_gone_is_named() {
    let bin = shell("bash");
    let script = "mkdir gone && cd gone && rmdir \"$PWD\" && exec \"$reins\" run --output json hi";
    let end = bin.run(["-c", script]).await.unwrap();
    assert_eq!(end.code, Some(2), "{}", end.stderr);
    assert_eq!(
        end.stderr,
        "reins: the current directory cannot be used: No such file or directory (os error 2)\n\
         hint: change to a directory that exists\n"
    );
    object(&end);
}
