//! What the types of the public surface promise.

use std::time::Duration;

use fredlock::{
    AcquireError, BuildError, Builder, ExtendError, Fence, InitialiseError, InspectError,
    Inspection, InvalidLabel, Lock, LostReason, Outcomes, OwnerLabel, Redlock, ReleaseError,
    Settings, Signal, Token, UsingError, testing::MemoryMasters,
};

const SECOND: Duration = Duration::from_secs(1);

fn is_send_and_static<T: Send + 'static>(_: &T) {}

fn is_value<T: Send + Sync + 'static>() {}

fn is_error<T: std::error::Error + Send + Sync + 'static>() {}

#[test]
fn every_type_can_cross_threads_and_every_error_can_be_boxed() {
    is_value::<Redlock>();
    is_value::<Lock>();
    is_value::<Signal>();
    is_value::<Settings>();
    is_value::<Outcomes>();
    is_value::<Fence>();
    is_value::<Token>();
    is_value::<Inspection>();
    is_value::<OwnerLabel>();
    is_value::<MemoryMasters>();
    is_value::<UsingError<u32>>();
    is_error::<AcquireError>();
    is_error::<ExtendError>();
    is_error::<ReleaseError>();
    is_error::<BuildError>();
    is_error::<InspectError>();
    is_error::<InitialiseError>();
    is_error::<InvalidLabel>();
    is_error::<LostReason>();
}

#[tokio::test(start_paused = true)]
async fn every_future_can_be_spawned() {
    let masters = MemoryMasters::new(3);
    let builder: Builder = Redlock::builder().memory(&masters);
    let connecting = builder.connect();
    is_send_and_static(&connecting);
    let redlock: &'static Redlock = Box::leak(Box::new(connecting.await.unwrap()));
    is_send_and_static(&redlock.acquire(["a"], SECOND));
    is_send_and_static(&redlock.try_acquire(vec!["a".to_owned()], SECOND));
    is_send_and_static(&redlock.using(["a"], SECOND, async |signal| signal.check()));
    is_send_and_static(&redlock.inspect("a"));
    is_send_and_static(&redlock.initialise());
    is_send_and_static(&redlock.shutdown(SECOND));
    let lock: &'static mut Lock =
        Box::leak(Box::new(redlock.acquire(["a"], SECOND).await.unwrap()));
    is_send_and_static(&lock.extend(SECOND));
    is_send_and_static(&redlock.acquire(["b"], SECOND).await.unwrap().release());
}

#[tokio::test(start_paused = true)]
async fn a_routine_may_borrow_and_need_not_cross_threads() {
    let masters = MemoryMasters::new(3);
    let redlock = crate::client(&masters, |settings| settings).await;
    let local = std::rc::Rc::new(std::cell::Cell::new(0));
    let using = redlock.using(["a"], SECOND, async |signal| {
        signal.check().unwrap();
        tokio::task::yield_now().await;
        local.set(local.get() + 1);
    });
    using.await.unwrap();
    assert_eq!(local.get(), 1);
}
