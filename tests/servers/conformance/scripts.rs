//! The scripts and the native commands do what the reference does, which the simulation runs on.

use fredlock::testing::{Agreed, conform};

use crate::support::server::Server;

const STEPS: usize = 1_500;

async fn compare(fenced: bool, guarded: bool) {
    let server = Server::start().await;
    for seed in 0..2 {
        let agreed = conform(&server.url(), seed, STEPS, fenced, guarded).await;
        let agreed = agreed.unwrap_or_else(|difference| panic!("seed {seed}: {difference}"));
        println!("seed {seed}: {agreed:?}");
        let Agreed {
            granted,
            stale,
            busy,
            extended,
            missing,
            not_held,
            released,
            quarantined,
            questions,
            ..
        } = agreed;
        let each = [granted, busy, extended, missing, not_held, released];
        assert!(each.iter().all(|count| *count > 10), "{agreed:?}");
        assert_eq!(stale > 10, fenced, "{agreed:?}");
        assert_eq!(quarantined > 10, guarded, "{agreed:?}");
        assert!(questions > 30, "{agreed:?}");
    }
}

#[tokio::test]
async fn the_scripts_answer_and_write_what_the_reference_does() {
    compare(true, false).await;
}

#[tokio::test]
async fn without_fencing_scripts_and_native_commands_do_what_the_reference_does() {
    compare(false, false).await;
}

#[tokio::test]
async fn with_a_restart_guard_the_scripts_do_what_the_reference_does() {
    compare(true, true).await;
}

#[tokio::test]
async fn with_a_restart_guard_and_without_fencing_the_scripts_do_what_the_reference_does() {
    compare(false, true).await;
}
