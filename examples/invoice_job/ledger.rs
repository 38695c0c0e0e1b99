//! What the lock protects. It stands for a database, which would do the same in transactions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use fredlock::Fence;

/// An account for each invoice.
pub struct Ledger(Mutex<Vec<Account>>);

struct Account {
    /// The newest fence that was here.
    fence: Fence,
    /// Who billed the invoice: one worker, if all is well.
    billed_by: Vec<usize>,
}

#[derive(Debug, thiserror::Error)]
#[error("fence {fence} is refused: a later holder of the lock was here with {newest}")]
pub struct TooOld {
    fence: Fence,
    newest: Fence,
}

impl Ledger {
    pub fn new(invoices: usize) -> Self {
        let account = |_| Account {
            fence: Fence::NONE,
            billed_by: Vec::new(),
        };
        Self(Mutex::new((0..invoices).map(account).collect()))
    }

    /// Who billed the invoice, if anybody did.
    ///
    /// It takes the fence although it only reads: from here on no earlier holder can write, so what
    /// the caller reads stays true until it writes itself.
    pub fn billed_by(&self, invoice: usize, fence: Fence) -> Result<Option<usize>, TooOld> {
        let mut accounts = self.accounts();
        let account = &mut accounts[invoice - 1];
        account.admit(fence)?;
        Ok(account.billed_by.first().copied())
    }

    /// Bills the invoice, billed or not: that this happens once is up to the holders of the lock.
    pub fn bill(&self, invoice: usize, fence: Fence, worker: usize) -> Result<(), TooOld> {
        let mut accounts = self.accounts();
        let account = &mut accounts[invoice - 1];
        account.admit(fence)?;
        account.billed_by.push(worker);
        Ok(())
    }

    /// How many invoices are billed by now.
    pub fn billed(&self) -> usize {
        let accounts = self.accounts();
        let billed = accounts
            .iter()
            .filter(|account| !account.billed_by.is_empty());
        billed.count()
    }

    /// Was every invoice billed exactly once?
    pub fn audit(&self) -> Result<(), String> {
        for (index, Account { billed_by, .. }) in self.accounts().iter().enumerate() {
            if billed_by.len() != 1 {
                return Err(format!("invoice {} was billed by {billed_by:?}", index + 1));
            }
        }
        Ok(())
    }

    fn accounts(&self) -> MutexGuard<'_, Vec<Account>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Remembers the newest fence and refuses an older one. The same one again is the same holder.
    fn admit(&mut self, fence: Fence) -> Result<(), TooOld> {
        let newest = self.fence.max(fence);
        self.fence = newest;
        if fence < newest {
            return Err(TooOld { fence, newest });
        }
        Ok(())
    }
}
