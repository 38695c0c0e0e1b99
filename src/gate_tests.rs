//! What a gate admits, against a memory without bound.

use proptest::prelude::*;

use super::*;

fn fence(number: u64) -> Fence {
    Fence::new(number)
}

#[test]
fn an_older_fence_is_refused_and_the_same_again_admitted() {
    let mut gate = Gate::<String>::new();
    gate.admit("a", fence(7)).unwrap();
    gate.admit("a", fence(7)).unwrap();
    gate.admit("a", fence(9)).unwrap();
    let refused = gate.admit("a", fence(8)).unwrap_err();
    assert!(matches!(refused, Refused::Older { newest, .. } if newest == fence(9)));
    assert_eq!(
        refused.to_string(),
        "fence 8 is refused: a later holder has been here with 9"
    );
}

#[test]
fn keys_have_orders_of_their_own() {
    let mut gate = Gate::<u32>::new();
    gate.admit(&1, fence(9)).unwrap();
    gate.admit(&2, fence(1)).unwrap();
    gate.admit(&1, fence(8)).unwrap_err();
}

#[test]
fn a_lock_without_a_fence_is_refused_at_any_key() {
    let mut gate = Gate::<u32>::new();
    assert_eq!(gate.admit(&1, Fence::NONE), Err(Refused::NoFence));
    gate.admit(&1, fence(1)).unwrap();
    assert_eq!(gate.admit(&1, Fence::NONE), Err(Refused::NoFence));
}

#[test]
fn a_key_from_a_clock_that_is_ahead_does_not_lift_the_floor_for_all() {
    let mut gate = Gate::<u64>::with_capacity(10);
    gate.admit(&0, fence(1 << 52)).unwrap();
    for number in 1..1_000 {
        gate.admit(&number, fence(number)).unwrap();
    }
    assert!(gate.floor() < fence(1_000));
    gate.admit(&0, fence(1_000)).unwrap_err();
}

#[test]
fn a_capacity_of_zero_still_refuses() {
    let mut gate = Gate::<u32>::with_capacity(0);
    gate.admit(&1, fence(5)).unwrap();
    gate.admit(&1, fence(4)).unwrap_err();
    gate.admit(&2, fence(6)).unwrap();
    gate.admit(&1, fence(4)).unwrap_err();
}

proptest! {
    /// Against a memory without bound: whatever that refuses is refused, and what is refused
    /// beyond that is refused for being older than the floor, and no other reason.
    #[test]
    fn a_gate_that_forgets_admits_no_fence_older_than_the_newest(
        capacity in 0_usize..8,
        visits in prop::collection::vec((0_u8..24, 1_u64..64), 1..400),
    ) {
        let mut gate = Gate::<u8>::with_capacity(capacity);
        let mut all = HashMap::<u8, Fence>::new();
        for (key, number) in visits {
            let fence = fence(number);
            let newest = all.get(&key).copied().unwrap_or(Fence::NONE);
            match gate.admit(&key, fence) {
                Ok(()) => {
                    prop_assert!(fence >= newest, "{key}: {fence} after {newest}");
                    all.insert(key, fence);
                }
                Err(Refused::Older { newest: told, .. }) => prop_assert_eq!(told, newest),
                Err(Refused::Forgotten { floor, .. }) => {
                    prop_assert_eq!(floor, gate.floor());
                    prop_assert!(fence < floor);
                }
                Err(Refused::NoFence) => prop_assert!(false, "it has one"),
            }
            prop_assert!(gate.remembered() <= capacity.max(1));
            prop_assert_eq!(gate.by_fence.len(), gate.newest.len());
        }
    }

    /// What the documentation promises of rising fences: nobody is refused by mistake who is
    /// older than fewer than `capacity` other keys.
    #[test]
    fn a_holder_older_than_fewer_keys_than_the_capacity_is_not_refused_by_mistake(
        capacity in 1_usize..8,
        visits in prop::collection::vec((0_u8..24, 1_u64..64), 1..400),
    ) {
        let mut gate = Gate::<u8>::with_capacity(capacity);
        let mut all = HashMap::<u8, Fence>::new();
        for (key, number) in visits {
            let fence = fence(number);
            let later = all.iter().filter(|(other, newest)| **other != key && **newest > fence);
            let is_recent = later.count() < capacity;
            match gate.admit(&key, fence) {
                Ok(()) => { all.insert(key, fence); }
                Err(Refused::Forgotten { .. }) => prop_assert!(!is_recent, "{key}: {fence}"),
                Err(_) => {}
            }
        }
    }
}
