//! How a connection ends, and whether requests that were on it may still be carried out.
//!
//! Some servers end a connection last of all, after the requests that they have read from it
//! ([`NbdServer`]). Where they have ended it, nothing of it comes later. A connection that the gate
//! itself gives up is half-closed, so that such a server comes to its end, and read until then.
//! What is read then is thrown away: the gate gives up what it does not trust. A connection that
//! failed says nothing.

use std::io;
use std::time::Duration;

use evenkeel_engine::policy::NbdServer;
use tokio::io::AsyncReadExt;

use super::guarded::Guarded;

/// A server that takes longer to come to its end is not waited for.
const END_TIME: Duration = Duration::from_secs(5);

/// How a connection came to its end.
pub(super) enum End {
    /// The server has ended it.
    ByServer,
    /// The server reads no more from it. What it has to say may not be over.
    Refused(Guarded),
    /// The gate does not go on with it.
    ByGate(Guarded),
    /// It failed.
    Lost,
}

impl End {
    /// Whether all that the server has read from the connection has ended.
    pub(super) async fn has_ended(self, server: NbdServer) -> bool {
        match self {
            Self::ByServer => server.ends_last(),
            Self::Refused(transport) => server.ends_last() && reaches_end(transport).await,
            Self::ByGate(transport) => {
                server.ends_last_after_half_close()
                    && transport.half_close().is_ok()
                    && reaches_end(transport).await
            }
            Self::Lost => false,
        }
    }
}

/// Whether the connection comes to an orderly end in time.
async fn reaches_end(mut transport: Guarded) -> bool {
    let end = async {
        let mut unread = vec![0; 64 << 10];
        while transport.read(&mut unread).await? > 0 {}
        Ok::<_, io::Error>(())
    };
    tokio::time::timeout(END_TIME, end).await.is_ok_and(|end| end.is_ok())
}
