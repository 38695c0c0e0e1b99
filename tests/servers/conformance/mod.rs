//! One contract for all masters: each test runs on in-memory masters and on real ones, with and
//! without fencing. Whatever holds on the in-memory masters in a user's test holds on a server.

mod contract;
mod rig;
mod scripts;

/// A test of each contract on each kind of masters.
macro_rules! conform {
    ($($contract:ident),+ $(,)?) => {
        mod in_memory {
            $(#[tokio::test] async fn $contract() { super::contract::$contract(super::rig::Rig::memory(true)).await; })+
        }
        mod in_memory_without_fencing {
            $(#[tokio::test] async fn $contract() { super::contract::$contract(super::rig::Rig::memory(false)).await; })+
        }
        mod real {
            $(#[tokio::test] async fn $contract() { super::contract::$contract(super::rig::Rig::real(true).await).await; })+
        }
        mod real_without_fencing {
            $(#[tokio::test] async fn $contract() { super::contract::$contract(super::rig::Rig::real(false).await).await; })+
        }
    };
}

conform!(
    an_acquired_lock_stands_on_every_master_with_its_ttl,
    a_held_lock_is_busy_for_others_who_are_told_the_time_left,
    a_release_leaves_no_lock_key_and_the_next_attempt_succeeds,
    a_foreign_value_on_a_minority_is_left_alone_and_costs_nothing,
    a_foreign_value_on_a_majority_is_busy_and_everything_is_taken_back,
    several_resources_are_all_or_none_on_each_master,
    sets_conflict_exactly_when_they_share_a_name,
    an_expired_lock_can_be_had_by_the_next,
    an_extension_lengthens_and_never_shortens,
    an_extension_puts_the_lock_back_where_a_minority_lost_it,
    an_extension_of_a_lock_that_a_majority_lost_creates_nothing,
    a_set_of_which_one_name_is_missing_is_put_back_whole,
    a_renewal_extends_where_the_lock_is_ours_and_heals_where_it_is_missing,
    a_late_release_never_touches_a_successor,
    the_fence_rises_with_every_holder_and_stays_for_its_retention,
    a_larger_fence_on_the_masters_is_exceeded_in_place,
    the_fence_of_several_resources_exceeds_the_last_of_each,
    a_lock_is_not_put_back_where_a_larger_fence_has_been,
);
