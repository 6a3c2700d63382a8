//! `reins session`: what each command does and says, for people and for programs.

mod changing;
mod damaged;
mod ephemeral;
mod first_format;
mod live;
mod moving;
mod reading;
mod removing;
mod travelling;

use std::path::PathBuf;

use reins_testkit::{Bin, Finished, StrictServer, script};
use serde_json::Value;

fn bin() -> Bin {
    Bin::new(env!("CARGO_BIN_EXE_reins")).unwrap()
}

/// A home whose model always says `fine`.
fn rig() -> (Bin, StrictServer) {
    let server = StrictServer::start(script().text("fine").usage(5, 3, 0).forever()).unwrap();
    (bin().model_at(&server.base_url()), server)
}

/// A new session with this prompt; its id.
async fn made(bin: &Bin, prompt: &str) -> String {
    let object = object(bin, &["run", "--output", "json", prompt]).await;
    object["session"].as_str().unwrap().to_owned()
}

/// A command that goes well.
async fn well(bin: &Bin, args: &[&str]) -> Finished {
    let end = bin.run(args).await.unwrap();
    assert_eq!(end.code, Some(0), "{args:?}: {end:?}");
    end
}

/// The one object of a command that goes well and says nothing else.
async fn object(bin: &Bin, args: &[&str]) -> Value {
    let end = well(bin, args).await;
    assert_eq!(end.stdout.lines().count(), 1, "{args:?}: {end:?}");
    serde_json::from_str(&end.stdout).unwrap()
}

/// A command that is refused with this code; its words.
async fn refused(bin: &Bin, args: &[&str], code: i32) -> String {
    let end = bin.run(args).await.unwrap();
    assert_eq!((end.code, end.stdout.as_str()), (Some(code), ""), "{args:?}: {end:?}");
    end.stderr
}

fn folder(bin: &Bin, id: &str) -> PathBuf {
    bin.home().join("sessions").join(id)
}

fn log_of(bin: &Bin, id: &str) -> PathBuf {
    folder(bin, id).join("00000000.log")
}

/// The keys of an object, in order.
fn keys(object: &Value) -> Vec<&str> {
    object.as_object().unwrap().keys().map(String::as_str).collect()
}
