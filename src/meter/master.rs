//! What one master takes to answer, and its errors.

use std::sync::Arc;

use ::metrics::{Histogram, SharedString, counter, histogram};
use tokio::time::Instant;

use super::family::{Family, values};
use crate::{
    master::Reply,
    metrics::{LABEL_ERROR, LABEL_MASTER, MASTER_ANSWER, MASTER_ERRORS},
    outcome::MasterError,
};

values! {
    enum Kind {
        Timeout = "timeout",
        ConnectionLost = "connection_lost",
        NotConnected = "not_connected",
        Unresponsive = "unresponsive",
        Unfit = "unfit",
        Server = "server",
        Unexpected = "unexpected",
    }
}

/// The handles of one master.
#[derive(Debug)]
pub(crate) struct MasterMeter {
    answer: Histogram,
    errors: Family,
}

/// When a master was asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked(Instant);

impl Asked {
    pub(crate) fn now() -> Self {
        Self(Instant::now())
    }
}

impl MasterMeter {
    /// Takes the handles of the recorder that is installed now.
    pub(crate) fn new(name: &Arc<str>) -> Self {
        let master = || SharedString::from(Arc::clone(name));
        let errors = Kind::VALUES
            .iter()
            .map(|&kind| counter!(MASTER_ERRORS, LABEL_MASTER => master(), LABEL_ERROR => kind));
        Self {
            answer: histogram!(MASTER_ANSWER, LABEL_MASTER => master()),
            errors: Family::of(errors),
        }
    }

    /// One operation was answered, or was not.
    pub(crate) fn answered(&self, asked: Asked, reply: &Reply) {
        if matches!(
            reply,
            Ok(_) | Err(MasterError::Server(_) | MasterError::Unexpected(_))
        ) {
            self.answer.record(asked.0.elapsed());
        }
        if let Err(error) = reply {
            self.failed(error);
        }
    }

    /// One operation had no answer.
    pub(crate) fn failed(&self, error: &MasterError) {
        let kind = match error {
            MasterError::Timeout => Kind::Timeout,
            MasterError::ConnectionLost(_) => Kind::ConnectionLost,
            MasterError::NotConnected(_) => Kind::NotConnected,
            MasterError::Unresponsive => Kind::Unresponsive,
            MasterError::Unfit(_) => Kind::Unfit,
            MasterError::Server(_) => Kind::Server,
            MasterError::Unexpected(_) => Kind::Unexpected,
        };
        self.errors.count(kind as usize);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use metrics_exporter_prometheus::PrometheusBuilder;

    use super::*;
    use crate::outcome::Answer;

    #[tokio::test(start_paused = true)]
    async fn every_kind_of_error_has_a_label_of_its_own_and_only_answers_have_a_time() {
        let recorder = PrometheusBuilder::new().build_recorder();
        let meter = ::metrics::with_local_recorder(&recorder, || MasterMeter::new(&"m".into()));
        let text = String::new;
        let asked = Asked::now();
        tokio::time::sleep(Duration::from_millis(500)).await;
        for (kind, error) in [
            ("timeout", MasterError::Timeout),
            ("connection_lost", MasterError::ConnectionLost(text())),
            ("not_connected", MasterError::NotConnected(text())),
            ("unresponsive", MasterError::Unresponsive),
            ("unfit", MasterError::Unfit(text())),
            ("server", MasterError::Server(text())),
            ("unexpected", MasterError::Unexpected(text())),
        ] {
            meter.answered(asked, &Err(error));
            let text = recorder.handle().render();
            let line = format!("fredlock_master_errors_total{{master=\"m\",error=\"{kind}\"}} 1\n");
            assert!(text.contains(&line), "{line}{text}");
        }
        meter.answered(asked, &Ok(Answer::Released));
        let text = recorder.handle().render();
        assert_eq!(text.matches("} 1\n").count(), 7, "{text}");
        let times = "fredlock_master_answer_seconds_count{master=\"m\"} 3\n";
        assert!(text.contains(times), "{text}");
    }
}
