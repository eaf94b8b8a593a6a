//! Connections whose viewers must take what they asked for.

use std::future::Future as _;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::Sleep;

/// A connection that ends when an answer, or a message of an event stream, was not taken within a time. That
/// some bytes were taken meanwhile does not count: a viewer that reads one a second would hold its place for
/// as long as it likes.
pub(crate) struct Timely<S> {
    stream: S,
    limit: Duration,
    /// Ends when what waits now must have been taken.
    behind: Option<Pin<Box<Sleep>>>,
}

impl<S> Timely<S> {
    pub(crate) fn new(stream: S, limit: Duration) -> Timely<S> {
        Timely { stream, limit, behind: None }
    }

    /// Judges what became of a write of so many bytes.
    fn judge(
        &mut self,
        context: &mut Context<'_>,
        offered: usize,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match &written {
            Poll::Ready(Ok(bytes)) if *bytes < offered => {}
            Poll::Pending => {}
            Poll::Ready(_) => {
                self.behind = None;
                return written;
            }
        }
        let limit = self.limit;
        let behind = self.behind.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match behind.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
            Poll::Pending => written,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Timely<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timely<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, bytes.len(), written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, parts);
        self.judge(context, parts.iter().map(|part| part.len()).sum(), written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use super::*;

    /// Takes as many bytes at each write as the list says, and is full where it says nothing.
    struct Viewer(Vec<usize>);

    impl AsyncWrite for Viewer {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            match self.0.pop() {
                Some(taken) => Poll::Ready(Ok(taken.min(bytes.len()))),
                None => Poll::Pending,
            }
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    const LONG: Duration = Duration::from_secs(3_600);

    fn block_on<T>(work: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
    }

    #[test]
    fn who_takes_a_few_bytes_at_a_time_gets_no_more_time() {
        block_on(async {
            let mut stream = Timely::new(Viewer(vec![1; 5]), LONG);
            let context = &mut Context::from_waker(Waker::noop());
            let mut deadlines = Vec::new();
            for _ in 0..8 {
                let _ = Pin::new(&mut stream).poll_write(context, &[0; 100]);
                deadlines.push(stream.behind.as_ref().map(|behind| behind.deadline()));
            }
            assert!(deadlines[0].is_some() && deadlines.iter().all(|one| *one == deadlines[0]));
        });
    }

    #[test]
    fn the_connection_of_who_takes_too_long_ends() {
        for viewer in [vec![], vec![1; 5]] {
            let mut stream = Timely::new(Viewer(viewer), Duration::ZERO);
            let ended = block_on(async {
                loop {
                    let write =
                        |context: &mut Context<'_>| Pin::new(&mut stream).poll_write(context, &[0; 100]);
                    if let Err(error) = std::future::poll_fn(write).await {
                        return error.kind();
                    }
                }
            });
            assert_eq!(ended, io::ErrorKind::TimedOut);
        }
    }

    #[test]
    fn who_takes_all_begins_anew() {
        block_on(async {
            let mut stream = Timely::new(Viewer(vec![100, 40]), LONG);
            let context = &mut Context::from_waker(Waker::noop());
            let behind = [(); 2].map(|()| {
                let written = Pin::new(&mut stream).poll_write(context, &[0; 100]);
                assert!(matches!(written, Poll::Ready(Ok(_))));
                stream.behind.is_some()
            });
            assert_eq!(behind, [true, false]);
        });
    }
}
