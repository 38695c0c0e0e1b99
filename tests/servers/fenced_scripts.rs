//! The scripts of fenced values, for any client.

use std::collections::HashMap;

use fredlock::{
    Gate, Refused,
    fenced::{self, fence_key},
};
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::fenced::fence;
use super::support::{
    resp::{Connection, Resp},
    server::Server,
};

/// On a raw connection: nothing but the scripts and what is said of their arguments.
#[tokio::test]
async fn the_scripts_refuse_what_a_gate_refuses_on_any_connection() {
    let server = Server::start().await;
    let mut connection = server.connect().await.unwrap();
    let (mut gate, mut values) = (Gate::<String>::new(), HashMap::new());
    let mut random = StdRng::seed_from_u64(4821);
    let (mut admitted, mut refused) = (0, 0);
    for step in 0..2_000 {
        let key = format!("key-{}", random.gen_range(0..4));
        // Around 2^53 a double would lose the last bit.
        let number = (1 << 53) - 2 - random.gen_range(0..40);
        let value = format!("value-{step}");
        let (script, before) = match random.gen_range(0..3) {
            0 => (fenced::SET, None),
            1 => (fenced::GET, values.get(&key).cloned()),
            _ => (fenced::DELETE, values.get(&key).cloned()),
        };
        let reply = eval(&mut connection, script, &key, number, &value).await;
        match gate.admit(&key, fence(number)) {
            Ok(()) => {
                admitted += 1;
                let second = match script {
                    fenced::SET => Resp::Int(i64::try_from(number).unwrap()),
                    fenced::GET => Resp::Bulk(before),
                    _ => Resp::Int(i64::from(before.is_some())),
                };
                assert_eq!(reply, Resp::Array(Some(vec![Resp::Int(1), second])));
                match script {
                    fenced::SET => drop(values.insert(key, value)),
                    fenced::DELETE => drop(values.remove(&key)),
                    _ => {}
                }
            }
            Err(Refused::Older { newest, .. }) => {
                refused += 1;
                let newest = Resp::Int(i64::from(newest));
                assert_eq!(reply, Resp::Array(Some(vec![Resp::Int(0), newest])));
            }
            Err(other) => panic!("{other}"),
        }
        // It forgets at times, and so does the gate: or the largest would soon end it all.
        if step % 50 == 49 {
            server.flush_all().await;
            (gate, values) = (Gate::new(), HashMap::new());
        }
    }
    assert!(admitted > 200 && refused > 200, "{admitted} {refused}");
}

async fn eval(
    connection: &mut Connection,
    script: &str,
    key: &str,
    fence: u64,
    value: &str,
) -> Resp {
    let (newest, fence) = (fence_key(key), fence.to_string());
    let mut call = vec!["EVAL", script, "2", key, &newest, &fence, "0"];
    if script == fenced::SET {
        call.extend([value, "0"]);
    }
    connection.call(&call).await.expect("an answer")
}
