//! What a fence is for: a holder that is paused past its ttl, and goes on with its write.
//!
//! ```sh
//! compose/with-masters cargo run --example paused_holder     # on five local servers
//! cargo run --example paused_holder                          # on masters in memory
//! ```
//!
//! A acquires the lock of an account, looks at its signal, and is stopped there with all of its
//! process that would know better: its thread, its runtime, its timers. So it might be by a garbage
//! collector, a swapping machine, or a write that is slow on its way. When its ttl is over B acquires
//! the lock, writes and releases. Then A goes on, with its write. Once without the fence, and once
//! with it.

use std::{
    error::Error,
    fmt,
    process::ExitCode,
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::Duration,
};

use fredlock::{BuildError, Fence, Gate, Redlock, Refused, UsingError, testing::MemoryMasters};
use tokio::sync::oneshot;

const TTL: Duration = Duration::from_secs(1);

/// What the lock protects: it stands for a database or a device.
#[derive(Default)]
struct Account {
    gate: Gate<String>,
    balance: u32,
}

/// Whether the account looks at the fence.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fenced {
    No,
    Yes,
}

impl Account {
    fn set(&mut self, balance: u32, fence: Fence, fenced: Fenced) -> Result<(), Refused> {
        if fenced == Fenced::Yes {
            self.gate.admit("account", fence)?;
        }
        self.balance = balance;
        Ok(())
    }
}

#[derive(Clone)]
enum Masters {
    Servers(Vec<String>),
    Memory(MemoryMasters),
}

impl Masters {
    fn from_environment() -> Self {
        let urls = std::env::var("FREDLOCK_MASTERS").unwrap_or_default();
        if urls.is_empty() {
            return Self::Memory(MemoryMasters::new(5));
        }
        Self::Servers(urls.split(',').map(str::to_owned).collect())
    }

    async fn connect(&self) -> Result<Redlock, BuildError> {
        let builder = match self {
            Self::Servers(urls) => Redlock::builder().urls(urls),
            Self::Memory(masters) => Redlock::builder().memory(masters),
        };
        builder
            .settings(|settings| settings.wait_for(TTL * 10))
            .connect()
            .await
    }
}

#[tokio::main]
async fn main() -> ExitCode {
    let masters = Masters::from_environment();
    println!("locked on {masters}, for {TTL:?} at a time\n");
    for (fenced, what, wanted) in [
        (Fenced::No, "without the fence", 80),
        (Fenced::Yes, "with the fence", 150),
    ] {
        println!("{what}: the account has 100; A takes 20, B adds 50");
        match run(&masters, fenced).await {
            Ok(balance) if balance == wanted => println!(),
            Ok(balance) => return fail(&format!("{balance} is not what this is to show")),
            Err(error) => return fail(&error.to_string()),
        }
    }
    println!("The lock alone did not stop A, and no lock can. The fence did.");
    ExitCode::SUCCESS
}

/// One pause; gives what the account has in the end.
async fn run(masters: &Masters, fenced: Fenced) -> Result<u32, Box<dyn Error + Send + Sync>> {
    let account = Arc::new(Mutex::new(Account {
        balance: 100,
        ..Account::default()
    }));
    let (has_paused, paused) = oneshot::channel();
    let (wake, woken) = mpsc::channel();
    let a = {
        let (masters, account) = (masters.clone(), Arc::clone(&account));
        thread::spawn(move || holder_a(&masters, &account, fenced, has_paused, &woken))
    };
    paused.await?;

    let redlock = masters.connect().await?;
    let lock = redlock.acquire(["account"], TTL).await?; // waits until the ttl of A is over
    let balance = {
        let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
        let balance = account.balance + 50;
        account.set(balance, lock.fence(), fenced)?;
        balance
    };
    println!("  B  fence {}: wrote {balance}", lock.fence());
    lock.release().await?;
    redlock.shutdown(TTL).await;

    wake.send(())?;
    tokio::task::spawn_blocking(|| a.join().unwrap_or_else(|_| Err("A panicked".into()))).await??;
    let balance = account
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .balance;
    println!("  the account has {balance}");
    Ok(balance)
}

/// A, on a thread and a runtime of its own, so that all of it stands still.
fn holder_a(
    masters: &Masters,
    account: &Mutex<Account>,
    fenced: Fenced,
    has_paused: oneshot::Sender<()>,
    woken: &mpsc::Receiver<()>,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let redlock = masters.connect().await?;
        let routine = async |signal: fredlock::Signal| {
            let fence = signal.fence();
            let read = account
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .balance;
            signal.check()?; // all is well
            println!("  A  fence {fence}: read {read}, still holds the lock, and is paused");
            has_paused.send(()).map_err(|()| "B is gone")?;
            woken.recv()?; // blocks the thread, and all that would extend the lock or look at the clock
            let mut account = account.lock().unwrap_or_else(PoisonError::into_inner);
            match account.set(read - 20, fence, fenced) {
                Ok(()) => println!("  A  goes on, and wrote {}", read - 20),
                Err(refused) => println!("  A  goes on: {refused}"),
            }
            Ok::<_, Box<dyn Error + Send + Sync>>(())
        };
        match redlock.using(["account"], TTL, routine).await {
            Ok(done) => done,
            Err(UsingError::Lost { output, .. }) => {
                println!("  A  is told by its result that the lock was lost");
                output.unwrap_or(Ok(()))
            }
            Err(error) => Err(error.to_string().into()),
        }
    })
}

impl fmt::Display for Masters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(urls) => write!(f, "{} servers of FREDLOCK_MASTERS", urls.len()),
            Self::Memory(_) => f.write_str("masters in memory (FREDLOCK_MASTERS is not set)"),
        }
    }
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}
