//! The listener: threads that each accept, serve and count for themselves.
//!
//! 1. Each thread has its own listening socket, its own runtime and its own pool of upstream connections; nothing is
//!    shared on the way of a byte.
//! 2. A stop is asked for once: listening ends, idle connections end, answers under way go on until the grace is over.
//!
//! No policy and no protocol may be added here.

use std::cell::{Cell, RefCell};
use std::fmt::Write as _;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::mem::take;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use headrace_kernel::{Client, ClientConfig, Scratch};
use socket2::{Domain, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::{Notify, watch};
use tokio::task::spawn_local;
use tokio::time::{Instant, sleep, sleep_until};

use crate::config::EdgeConfig;
use crate::connection;
use crate::counts::Counts;
use crate::limits;
use crate::mailbox::Desk;
use crate::policy::Policy;

/// A running listener. Dropping it stops it, without grace.
#[derive(Debug)]
pub struct Edge {
    address: SocketAddr,
    stop: watch::Sender<Option<Instant>>,
    counts: Arc<Counts>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Edge {
    /// Listens, and answers from then on.
    pub fn start(config: EdgeConfig, kernel: &ClientConfig, policy: &Arc<dyn Policy>) -> io::Result<Edge> {
        let threads = config.threads.max(1);
        let first = listen(config.address, threads > 1, true)?;
        let address = first.local_addr()?;
        let mut listeners = vec![first];
        for _ in 1..threads {
            listeners.push(listen(address, true, false)?);
        }
        let (stop, stopped) = watch::channel(None);
        let config = Arc::new(config);
        let counts = Arc::new(Counts::default());
        let (started, starts) = mpsc::channel();
        let mut handles = Vec::with_capacity(threads);
        for (i, listener) in listeners.into_iter().enumerate() {
            let (config, kernel, policy) = (Arc::clone(&config), kernel.clone(), Arc::clone(policy));
            let (stopped, started) = (stopped.clone(), started.clone());
            let counts = Arc::clone(&counts);
            let thread = thread::Builder::new().name(format!("headrace-edge-{i}"));
            handles.push(thread.spawn(move || run(listener, config, kernel, (policy, counts), stopped, &started))?);
        }
        drop(started);
        let edge = Edge { address, stop, counts, threads: Mutex::new(handles) };
        for result in starts.iter().take(threads) {
            if let Err(error) = result {
                edge.stop(Duration::ZERO);
                edge.join();
                return Err(error);
            }
        }
        Ok(edge)
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the listener's threads have counted.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// Stops listening at once and lets answers under way end within `grace`. A later call changes the grace.
    pub fn stop(&self, grace: Duration) {
        // Without receivers the threads are gone already.
        let _ = self.stop.send(Some(Instant::now() + grace));
    }

    /// Waits for the threads, which end after a stop.
    pub fn join(&self) {
        let threads = take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
    }
}

/// Opens a listening socket. A port that another process listens on is refused also where our own threads share it.
fn listen(address: SocketAddr, shared: bool, first: bool) -> io::Result<StdListener> {
    if shared && first && address.port() != 0 {
        drop(open(address, false)?);
    }
    open(address, shared)
}

fn open(address: SocketAddr, shared: bool) -> io::Result<StdListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
    socket.set_reuse_address(true)?;
    #[cfg(target_os = "linux")]
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// What the connections of one thread share.
pub(crate) struct Worker {
    pub(crate) config: Arc<EdgeConfig>,
    pub(crate) policy: Arc<dyn Policy>,
    pub(crate) counts: Arc<Counts>,
    pub(crate) desk: Rc<Desk>,
    pub(crate) kernel: Client,
    /// Where reads land, and where events are encoded: one each per thread.
    pub(crate) scratch: RefCell<Scratch>,
    pub(crate) encoded: RefCell<Vec<u8>>,
    /// A stop was asked for.
    pub(crate) draining: Cell<bool>,
    pub(crate) drained: Notify,
    connections: Cell<usize>,
    ended: Notify,
    /// Ids of requests: the thread's own start, and a count.
    seed: u64,
    requests: Cell<u64>,
}

impl Worker {
    pub(crate) fn request_id(&self) -> String {
        let n = self.requests.get();
        self.requests.set(n + 1);
        // Its usual length: what formats in steps would make room in steps, for every request.
        let mut id = String::with_capacity(28);
        let _ = write!(id, "req_{:016x}{n:08x}", self.seed);
        id
    }

    pub(crate) fn is_ready(&self) -> bool {
        !self.draining.get() && self.policy.ready()
    }
}

fn run(
    listener: StdListener,
    config: Arc<EdgeConfig>,
    kernel: ClientConfig,
    (policy, counts): (Arc<dyn Policy>, Arc<Counts>),
    stopped: watch::Receiver<Option<Instant>>,
    started: &mpsc::Sender<io::Result<()>>,
) {
    let runtime = Builder::new_current_thread().enable_io().enable_time().build_local(LocalOptions::default());
    let runtime = match runtime {
        Ok(runtime) => runtime,
        // Nobody listens only where another thread has failed before.
        Err(error) => return drop(started.send(Err(error))),
    };
    runtime.block_on(async move {
        let listener = match TcpListener::from_std(listener) {
            Ok(listener) => listener,
            Err(error) => return drop(started.send(Err(error))),
        };
        let worker = Rc::new(Worker {
            desk: Rc::new(Desk::new(Arc::clone(&policy))),
            config,
            policy,
            counts,
            kernel: Client::new(kernel),
            scratch: RefCell::default(),
            encoded: RefCell::default(),
            draining: Cell::new(false),
            drained: Notify::new(),
            connections: Cell::new(0),
            ended: Notify::new(),
            seed: RandomState::new().build_hasher().finish(),
            requests: Cell::new(0),
        });
        spawn_local(Rc::clone(&worker.desk).serve());
        spawn_local(Rc::clone(&worker.desk).flush());
        let _ = started.send(Ok(()));
        accept(listener, &worker, stopped).await;
    });
}

/// Accepts until a stop is asked for, then waits for the connections, within the grace.
async fn accept(listener: TcpListener, worker: &Rc<Worker>, mut stopped: watch::Receiver<Option<Instant>>) {
    loop {
        tokio::select! {
            biased;
            _ = stopped.changed() => break,
            accepted = listener.accept(), if worker.connections.get() < limits::CONNECTIONS => match accepted {
                Ok((socket, peer)) => admit(worker, socket, peer),
                // Out of descriptors, mostly: trying at once again would only burn the processor.
                Err(_) => sleep(ACCEPT_PAUSE).await,
            },
            () = worker.ended.notified(), if worker.connections.get() >= limits::CONNECTIONS => {}
        }
    }
    drop(listener);
    worker.draining.set(true);
    worker.drained.notify_waiters();
    while worker.connections.get() > 0 {
        // A sender that is gone allows no grace.
        let until = stopped.borrow_and_update().unwrap_or_else(Instant::now);
        tokio::select! {
            () = worker.ended.notified() => {}
            () = sleep_until(until) => break,
            Ok(()) = stopped.changed() => {}
        }
    }
}

fn admit(worker: &Rc<Worker>, socket: TcpStream, peer: SocketAddr) {
    // A connection without these works all the same, only worse.
    let _ = socket.set_nodelay(true);
    #[cfg(target_os = "linux")]
    let _ = socket2::SockRef::from(&socket).set_tcp_notsent_lowat(limits::NOT_SENT);
    let counted = Counted::new(worker);
    let worker = Rc::clone(worker);
    spawn_local(async move {
        let _counted = counted;
        connection::serve(worker, socket, peer).await;
    });
}

/// Counts a connection for as long as its task lives.
struct Counted(Rc<Worker>);

impl Counted {
    fn new(worker: &Rc<Worker>) -> Counted {
        worker.connections.set(worker.connections.get() + 1);
        worker.counts.accept();
        Counted(Rc::clone(worker))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.set(self.0.connections.get() - 1);
        self.0.counts.close();
        self.0.ended.notify_one();
    }
}

/// Connections that wait to be accepted. The kernel caps it by `somaxconn` (4,096).
const BACKLOG: i32 = 4096;

/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
