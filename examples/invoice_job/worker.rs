//! Bills invoices, each under its lock.

use std::{sync::Arc, time::Duration};

use fredlock::{Redlock, Signal, UsingError};
use tokio::time::{Instant, sleep};

use crate::{Done, journal::Journal, ledger::Ledger};

/// How long the lock of a holder that died stays. One that lives extends its lock.
const TTL: Duration = Duration::from_millis(1500);

/// The invoice that takes longer than the ttl.
const LONG_INVOICE: usize = 4;

pub struct Worker {
    number: usize,
    redlock: Redlock,
    ledger: Arc<Ledger>,
    journal: Journal,
}

impl Worker {
    pub fn new(number: usize, redlock: Redlock, ledger: Arc<Ledger>, journal: Journal) -> Self {
        Self {
            number,
            redlock,
            ledger,
            journal,
        }
    }

    pub async fn bill_all(self, invoices: usize) -> Done {
        for invoice in self.order(invoices) {
            match self.bill(invoice).await {
                Ok(done) => done?,
                // Billed or not: whoever has the lock next will see.
                Err(UsingError::Lost { reason, .. }) => {
                    self.say(invoice, &format!("LOST: {reason}"));
                }
                Err(error) => return Err(error.into()),
            }
        }
        // Ends what is still under way, and closes the connections.
        self.redlock.shutdown(Duration::from_secs(1)).await;
        Ok(())
    }

    /// How a lock is used: once it is ours, look what is left to do; do it; check; write.
    async fn bill(&self, invoice: usize) -> Result<Done, UsingError<Done>> {
        let say = |what: String| self.say(invoice, &what);
        let routine = async |signal: Signal| {
            let fence = signal.fence();
            if let Some(worker) = self.ledger.billed_by(invoice, fence)? {
                say(format!("held, fence {fence}: worker {worker} billed it"));
                return Ok(());
            }
            say(format!("held, fence {fence}, valid for {}", left(&signal)));
            self.write_out(invoice, &signal).await;

            signal.check()?; // an error once the lock is no longer ours
            self.ledger.bill(invoice, fence, self.number)?; // an error once a later holder was there
            say(format!("BILLED, fence {fence}, {} left", left(&signal)));
            Ok(())
        };
        let resources = [format!("invoice:{invoice}")];
        self.redlock.using(resources, TTL, routine).await
    }

    /// The work, which takes its time. Meanwhile the lock is extended; this only watches that.
    async fn write_out(&self, invoice: usize, signal: &Signal) {
        let end = Instant::now() + duration(invoice);
        let mut last = signal.remaining();
        while Instant::now() < end && !signal.is_aborted() {
            sleep(Duration::from_millis(20)).await;
            let now = signal.remaining();
            if now > last {
                self.say(invoice, &format!("extended, valid for {}", left(signal)));
            }
            last = now;
        }
    }

    /// Up, down, and either from the middle on: so that workers meet.
    fn order(&self, invoices: usize) -> Vec<usize> {
        let mut order: Vec<_> = (1..=invoices).collect();
        if self.number > 2 {
            order.rotate_left(invoices / 2);
        }
        if self.number.is_multiple_of(2) {
            order.reverse();
        }
        order
    }

    fn say(&self, invoice: usize, what: &str) {
        let who = format!("worker {}  invoice {invoice:<2}", self.number);
        self.journal.say(format!("{who}  {what}"));
    }
}

fn duration(invoice: usize) -> Duration {
    if invoice == LONG_INVOICE {
        return Duration::from_millis(2500);
    }
    Duration::from_millis(400 + 50 * invoice as u64)
}

fn left(signal: &Signal) -> String {
    format!("{} ms", signal.remaining().as_millis())
}
