//! A PostgreSQL server of a test's own.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use nix::{
    sys::signal::{Signal, kill},
    unistd::{Pid, User, geteuid},
};
use tokio::{
    task::JoinHandle,
    time::{Instant, sleep},
};
use tokio_postgres::{Client, NoTls};

/// How long a server may take to start.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Waits on its standard input, which ends with the process of the test however that ends, and then
/// does what `Drop` did not get to do. The directory tells whether the id is still the server's.
const WATCHDOG: &str = r#"
    trap '' INT HUP TERM
    read -r _
    [ "$(readlink "/proc/$1/cwd")" = "$2/data" ] && kill -QUIT "$1"
    while [ "$(readlink "/proc/$1/cwd")" = "$2/data" ]; do sleep 0.05; done
    rm -rf -- "$2"
"#;

/// A server with an empty database, in a directory of its own, which is reached by a socket there: so
/// there is no port that somebody else could take.
///
/// Dropping it, also by a panic, ends the server and removes the directory. If the test's process is
/// killed, a watchdog does both.
#[derive(Debug)]
pub struct Postgres {
    server: Child,
    watchdog: Child,
    dir: PathBuf,
}

impl Postgres {
    pub async fn start() -> Self {
        let dir = new_directory();
        let binaries = binaries();
        let initdb = as_server(&binaries.join("initdb"), &dir)
            .args(["-D", "data", "-U", "fredlock", "-A", "trust", "-E", "UTF8"])
            .args(["--locale=C", "--no-sync", "--wal-segsize=1"])
            .output()
            .expect("initdb");
        assert!(initdb.status.success(), "initdb failed: {initdb:?}");

        let log = File::create(dir.join("log")).expect("the server's log");
        let server = as_server(&binaries.join("postgres"), &dir)
            .args(["-D", "data", "-k", &dir.display().to_string()])
            // Nothing here has to survive a crash of the machine.
            .args(["-c", "listen_addresses=", "-c", "fsync=off"])
            .args(["-c", "shared_buffers=16MB", "-c", "max_connections=120"])
            // In its directory, with which it goes.
            .args(["-c", "dynamic_shared_memory_type=mmap"])
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("postgres");
        let watchdog = Command::new("sh")
            .args(["-c", WATCHDOG, "watchdog", &server.id().to_string()])
            .arg(&dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("sh, which watches over the server");
        let mut postgres = Self {
            server,
            watchdog,
            dir,
        };
        postgres.await_start().await;
        postgres
    }

    /// What to connect to, as `tokio_postgres::connect` takes it.
    pub fn url(&self) -> String {
        format!("host={} user=fredlock dbname=postgres", self.dir.display())
    }

    /// Its directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// A new connection.
    pub async fn connect(&self) -> Worker {
        self.try_connect().await.expect("a connection")
    }

    async fn try_connect(&self) -> Result<Worker, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.url(), NoTls).await?;
        let connection = tokio::spawn(async {
            // Its end shows at the client.
            drop(connection.await);
        });
        Ok(Worker { client, connection })
    }

    async fn await_start(&mut self) {
        let deadline = Instant::now() + START_LIMIT;
        while let Err(error) = self.try_connect().await {
            let ended = self.server.try_wait().expect("the server is our child");
            let log = fs::read_to_string(self.dir.join("log")).unwrap_or_default();
            assert!(
                ended.is_none() && Instant::now() < deadline,
                "postgres did not start ({ended:?}, {error}); its log:\n{log}"
            );
            sleep(Duration::from_millis(10)).await;
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        // The watchdog first: its id of the server may be somebody else's soon.
        for (child, signal) in [
            (&mut self.watchdog, Signal::SIGKILL),
            // Ends all of its processes at once, without the care that a database deserves.
            (&mut self.server, Signal::SIGQUIT),
        ] {
            let pid = Pid::from_raw(child.id().cast_signed());
            let ended = kill(pid, signal).map_err(io::Error::from);
            if let Err(error) = ended.and_then(|()| child.wait()) {
                eprintln!("could not end process {pid}: {error}");
            }
        }
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            eprintln!("could not remove {}: {error}", self.dir.display());
        }
    }
}

/// A connection to the server, as a worker has one. Dropping it closes it.
#[derive(Debug)]
pub struct Worker {
    pub client: Client,
    connection: JoinHandle<()>,
}

impl Worker {
    /// The worker's process is gone, and its socket with it.
    pub async fn die(self) {
        self.connection.abort();
        // Until it is dropped, the socket is open.
        drop(self.connection.await);
        drop(self.client);
    }
}

/// Where initdb and postgres are; gets them first if need be.
fn binaries() -> &'static Path {
    static BINARIES: OnceLock<PathBuf> = OnceLock::new();
    BINARIES.get_or_init(|| {
        let script = concat!(env!("CARGO_MANIFEST_DIR"), "/compose/install-postgres");
        let output = Command::new(script).stderr(Stdio::inherit()).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run {script}: {error}"));
        assert!(
            output.status.success(),
            "these tests need PostgreSQL's server, and {script} found none and could not install it: \
             `apt-get install postgresql`, or set FREDLOCK_POSTGRES to the directory that has initdb"
        );
        String::from_utf8_lossy(&output.stdout).trim_end().into()
    })
}

/// A command that runs as somebody who may run PostgreSQL, which refuses root.
fn as_server(binary: &Path, dir: &Path) -> Command {
    use std::os::unix::process::CommandExt as _;

    let mut command = Command::new(binary);
    command.current_dir(dir).stdin(Stdio::null());
    if let Some(user) = other_user() {
        command.uid(user.uid.as_raw()).gid(user.gid.as_raw());
    }
    command
}

/// Who runs the server where the tests run as root. It has to have a name.
fn other_user() -> Option<User> {
    if !geteuid().is_root() {
        return None;
    }
    let nobody = User::from_name("nobody").expect("the list of users");
    Some(nobody.expect("PostgreSQL refuses root, and there is no user `nobody`"))
}

fn new_directory() -> PathBuf {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    // Without links in it, as the watchdog compares it with where the server is. A short one: the path
    // of a socket has about 100 bytes.
    let parent = parent_directory().canonicalize().expect("a directory");
    let dir = parent.join(format!("fredlock-postgres-{}-{count}", std::process::id()));
    if dir.exists() {
        fs::remove_dir_all(&dir).expect("removed what an earlier process left behind");
    }
    fs::create_dir(&dir).expect("a directory for the server");
    if let Some(user) = other_user() {
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        std::os::unix::fs::chown(&dir, Some(uid), Some(gid)).expect("the server's directory");
    }
    dir
}

/// In memory where there is room: a new database is a thousand small files.
fn parent_directory() -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let free = Command::new("df").arg("-Pk").arg(&memory).output();
    let free_kb = free.ok().and_then(|output| {
        let text = String::from_utf8(output.stdout).ok()?;
        text.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()
    });
    // About 30 MB for each server, as many at once as there are processors.
    if free_kb.is_some_and(|kb: u64| kb >= 1_000_000) {
        memory
    } else {
        std::env::temp_dir()
    }
}
