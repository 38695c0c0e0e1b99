use tokio::time::advance;

use super::*;

fn named(names: &[&str]) -> Resources {
    Resources::parse(names.iter().copied()).unwrap()
}

fn queue() -> Arc<Queue> {
    Arc::new(Queue::new(None))
}

async fn has_turn(ticket: &Ticket) -> bool {
    let turn = tokio::time::timeout(Duration::from_millis(1), ticket.turn());
    turn.await.is_ok()
}

#[tokio::test(start_paused = true)]
async fn who_comes_first_is_first_and_hands_on_to_the_next() {
    let queue = queue();
    let [one, two, three] = [(); 3].map(|()| queue.enter(&named(&["a"])));
    assert!(one.is_first() && !two.is_first() && !three.is_first());
    // One that is cancelled in the middle changes nothing for the rest.
    drop(two);
    assert!(!has_turn(&three).await);
    drop(one);
    assert!(has_turn(&three).await && three.is_first());
}

#[tokio::test(start_paused = true)]
async fn sets_that_overlap_are_served_in_order_and_disjoint_ones_do_not_wait() {
    let queue = queue();
    let ab = queue.enter(&named(&["a", "b"]));
    let bc = queue.enter(&named(&["b", "c"]));
    let cd = queue.enter(&named(&["c", "d"]));
    let d = queue.enter(&named(&["e"]));
    assert!(ab.is_first() && !bc.is_first() && !cd.is_first() && d.is_first());
    drop(ab);
    assert!(bc.is_first() && !cd.is_first());
    drop(bc);
    assert!(has_turn(&cd).await && cd.is_first());
}

#[tokio::test(start_paused = true)]
async fn only_one_that_wants_less_than_those_before_it_may_pass() {
    let queue = queue();
    let _both = queue.enter(&named(&["a", "b"]));
    let one = queue.enter(&named(&["a"]));
    let more = queue.enter(&named(&["a", "b", "c"]));
    assert!(one.may_pass(), "b may be all that is in the way");
    assert!(!more.may_pass());
}

#[tokio::test(start_paused = true)]
async fn one_that_is_first_and_is_not_heard_of_is_passed_over_and_may_come_back() {
    let queue = queue();
    let [one, two] = [(); 2].map(|()| queue.enter(&named(&["a"])));
    one.due(Instant::now() + LATE);
    advance(LATE * 3 / 2).await;
    assert!(!two.is_first(), "it has time");
    advance(LATE).await;
    assert!(two.is_first());
    assert!(one.is_first(), "with its old number");
    assert!(!two.is_first());
}

#[tokio::test(start_paused = true)]
async fn who_comes_meanwhile_hastens_a_pause_and_no_attempt() {
    for is_attempt in [false, true] {
        let queue = queue();
        let one = queue.enter(&named(&["a"]));
        let end = Instant::now() + LATE * 10;
        if is_attempt {
            one.busy_until(end);
        } else {
            one.due(end);
        }
        let two = queue.enter(&named(&["a"]));
        assert!(has_turn(&one).await, "it is awaited from now on");
        advance(LATE * 3).await;
        assert_eq!(two.is_first(), !is_attempt);
        advance(LATE * 9).await;
        assert!(two.is_first());
    }
}

#[tokio::test(start_paused = true)]
async fn whose_turn_comes_late_has_its_time_from_then() {
    let queue = queue();
    let [one, two, three] = [(); 3].map(|()| queue.enter(&named(&["a"])));
    advance(LATE * 10).await;
    drop(one);
    assert!(!three.is_first());
    assert!(two.is_first());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_of_a_queue_in_which_nobody_stands() {
    let queue = queue();
    let tickets: Vec<_> = (0..10)
        .map(|n| queue.enter(&named(&["a", &n.to_string()])))
        .collect();
    assert_eq!(queue.len(), 10);
    drop(tickets);
    assert_eq!(queue.len(), 0);
    assert!(queue.lines().of.is_empty());
}
