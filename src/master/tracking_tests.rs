use super::*;

#[tokio::test]
async fn whoever_comes_when_a_session_has_just_ended_gets_another() {
    let tracking = Tracking::new("a".into(), Config::default(), ConnectionConfig::default());
    let interest = || {
        let resources = Resources::parse(["a"]).unwrap();
        tracking.register(resources).unwrap()
    };
    let (first, second) = (interest(), interest());
    assert!(Arc::ptr_eq(&first.session, &second.session));
    // Its own task has not seen that yet.
    first.session.ended.cancel();
    let third = interest();
    assert!(!Arc::ptr_eq(&first.session, &third.session));
}

#[tokio::test]
async fn a_refusal_is_told_once() {
    let tracking = Tracking::new("a".into(), Config::default(), ConnectionConfig::default());
    let told = Arc::new(Mutex::new(Vec::new()));
    let page = Arc::clone(&told);
    let subscriber = tracing_subscriber::fmt().with_writer(move || Page(Arc::clone(&page)));
    tracing::subscriber::with_default(subscriber.finish(), || {
        for _ in 0..3 {
            tracking.refuse(&MasterError::Server("NOPERM".to_owned()));
        }
    });
    let told = String::from_utf8(told.lock().unwrap().clone()).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
}

struct Page(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Page {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
