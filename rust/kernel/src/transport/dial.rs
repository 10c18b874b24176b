//! TCP connections to a host with several addresses.
//!
//! An address that does not answer must not eat the connect deadline while another would: after a moment the
//! next one is tried beside it, and the first to connect wins. Families take turns, since mostly one of them is
//! broken as a whole.

use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use tokio::net::TcpStream;
use tokio::time::{Instant, sleep};

use crate::failure::Cause;
use crate::limits;

type Dialing = Pin<Box<dyn Future<Output = io::Result<TcpStream>> + Send>>;

/// Connect to whichever address answers first. If cancelled: every connection is closed.
pub(crate) async fn dial(addresses: Vec<SocketAddr>) -> Result<TcpStream, Cause> {
    let mut waiting = taking_turns(addresses).into_iter();
    let Some(first) = waiting.next() else { return Err(Cause::Dns(io::ErrorKind::NotFound)) };
    let mut racing: Vec<Dialing> = vec![Box::pin(TcpStream::connect(first))];
    if waiting.len() == 0 {
        return racing.remove(0).await.map_err(|e| Cause::Connect(e.kind()));
    }
    let mut pause = pin!(sleep(limits::DIAL_PAUSE));
    let mut failed = None;
    poll_fn(|cx| {
        loop {
            let mut next = pause.as_mut().poll(cx).is_ready();
            let mut i = 0;
            while i < racing.len() {
                match racing[i].as_mut().poll(cx) {
                    Poll::Ready(Ok(tcp)) => return Poll::Ready(Ok(tcp)),
                    Poll::Ready(Err(e)) => {
                        // The first failure is of the address that is preferred, and mostly says most.
                        failed.get_or_insert(e.kind());
                        drop(racing.remove(i));
                        next = true;
                    }
                    Poll::Pending => i += 1,
                }
            }
            match if next { waiting.next() } else { None } {
                Some(address) => {
                    racing.push(Box::pin(TcpStream::connect(address)));
                    pause.as_mut().reset(Instant::now() + limits::DIAL_PAUSE);
                }
                None if racing.is_empty() => {
                    return Poll::Ready(Err(Cause::Connect(failed.unwrap_or(io::ErrorKind::NotConnected))));
                }
                None => return Poll::Pending,
            }
        }
    })
    .await
}

/// The resolver's order, but with the families alternating from its first one on.
fn taking_turns(addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    let Some(first_is_v6) = addresses.first().map(SocketAddr::is_ipv6) else { return addresses };
    let (same, other): (Vec<_>, Vec<_>) = addresses.into_iter().partition(|a| a.is_ipv6() == first_is_v6);
    let mut other = other.into_iter();
    let mut turns: Vec<_> = same.into_iter().flat_map(|a| [Some(a), other.next()]).flatten().collect();
    turns.extend(other);
    turns.truncate(limits::DIAL_ADDRESSES);
    turns
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, TcpListener};
    use std::time::Duration;

    use socket2::{Domain, Socket, Type};

    use super::*;

    fn run<T>(test: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await.expect("the test hangs") })
    }

    /// A listener whose queue is full: connecting to it gets no answer.
    fn mute() -> (Socket, SocketAddr, Vec<Socket>) {
        let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        listener.bind(&SocketAddr::from((Ipv4Addr::LOCALHOST, 0)).into()).unwrap();
        listener.listen(0).unwrap();
        let address = listener.local_addr().unwrap().as_socket().unwrap();
        let fill = || {
            let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
            socket.set_nonblocking(true).unwrap();
            let _ = socket.connect(&address.into());
            socket
        };
        (listener, address, (0..8).map(|_| fill()).collect())
    }

    fn refusing() -> SocketAddr {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
    }

    #[test]
    fn an_address_that_is_mute_does_not_hold_up_the_next() {
        run(async {
            let (_listener, mute, _queue) = mute();
            let good = TcpListener::bind("127.0.0.1:0").unwrap();
            let tcp = dial(vec![mute, good.local_addr().unwrap()]).await.unwrap();
            assert_eq!(tcp.peer_addr().unwrap(), good.local_addr().unwrap());
        });
    }

    #[test]
    fn a_refusal_moves_on_at_once_and_the_first_one_is_told() {
        run(async {
            let good = TcpListener::bind("127.0.0.1:0").unwrap();
            let begun = std::time::Instant::now();
            let mut list: Vec<_> = (1..limits::DIAL_ADDRESSES).map(|_| refusing()).collect();
            list.push(good.local_addr().unwrap());
            assert!(dial(list).await.is_ok());
            assert!(begun.elapsed() < limits::DIAL_PAUSE * 4, "no pause after a refusal");
            let refused = dial(vec![refusing(), refusing()]).await.unwrap_err();
            assert_eq!(refused, Cause::Connect(io::ErrorKind::ConnectionRefused));
            assert_eq!(dial(Vec::new()).await.unwrap_err(), Cause::Dns(io::ErrorKind::NotFound));
        });
    }

    #[test]
    fn families_take_turns() {
        let six = |n| SocketAddr::new(IpAddr::V6(Ipv6Addr::from(n)), 1);
        let four = |n: u32| SocketAddr::new(IpAddr::V4(Ipv4Addr::from(n)), 1);
        let list = vec![six(1), six(2), four(1), four(2), four(3)];
        assert_eq!(taking_turns(list), [six(1), four(1), six(2), four(2), four(3)]);
        assert_eq!(taking_turns(vec![four(1), six(1)]), [four(1), six(1)]);
        assert_eq!(taking_turns((0..20).map(four).collect()).len(), limits::DIAL_ADDRESSES);
    }
}
