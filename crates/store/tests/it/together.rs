//! Clients who write to one block at once: they share records, and nothing that one of them wrote
//! is undone by what another read before.

use std::cell::Cell;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use evenkeel_store::{
    Buffer, CacheOptions, Durability, Halt, OpenOptions, Store, Tuning, VolumeId, create,
};

use crate::everyday::{reopen, with_store};
use crate::support::drive::{CrashDrive, Power};
use crate::support::executor::{Spawner, block_on, run};
use crate::support::{options, usual};

const VOLUME: VolumeId = VolumeId(0);

/// Writes that are under way at once. A record takes 14 of them.
const CLIENTS: u8 = 60;

/// Bytes that a client writes within the block who does not write it whole.
const PART_BYTES: usize = 40;

/// Carries out all of them at once, begun in their order.
pub(crate) async fn all<'a>(writes: impl Iterator<Item = impl Future<Output = ()> + 'a>) {
    let mut left: Vec<Pin<Box<dyn Future<Output = ()> + 'a>>> =
        writes.map(|write| Box::pin(write) as _).collect();
    poll_fn(|context| {
        left.retain_mut(|write| write.as_mut().poll(context).is_pending());
        if left.is_empty() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}

async fn write_whole(store: &Store<CrashDrive>, value: u8) {
    let data = Buffer::copy_of(&[value; 4096]);
    store.write(VOLUME, 0, data, Durability::Volatile).await.unwrap();
}

/// Writes a part of the block that is this client's own.
async fn write_part(store: &Store<CrashDrive>, client: u8) {
    let data = Buffer::copy_of(&[client; PART_BYTES]);
    let offset = u64::from(client) * PART_BYTES as u64;
    store.write(VOLUME, offset, data, Durability::Volatile).await.unwrap();
}

#[test]
fn who_replaces_the_same_block_shares_a_record() {
    let last = Cell::new(0);
    let drives = with_store(2, 2, 50, async |store| {
        all((1..=CLIENTS).map(|value| write_whole(store, value))).await;
        let counters = store.status().counters;
        assert_eq!(counters.written_blocks, u64::from(CLIENTS));
        assert!(counters.records <= 1 + u64::from(CLIENTS).div_ceil(14), "{counters:?}");
        let data = store.read(VOLUME, 0, 4096).await.unwrap();
        assert!(data[0] > 0 && data.iter().all(|&byte| byte == data[0]), "one of them");
        last.set(data[0]);
    });
    // A replay comes to the same one of those in a record.
    reopen(&drives, async |store| {
        assert_eq!(*store.read(VOLUME, 0, 4096).await.unwrap(), [last.get(); 4096]);
    });
}

#[test]
fn a_part_of_a_block_is_written_over_all_that_was_asked_for_before() {
    with_store(1, 1, 50, async |store| {
        let whole = (0..CLIENTS).map(|_| Client::Whole(100));
        let parts = (0..CLIENTS).map(Client::Part);
        all(whole.chain(parts).map(|client| client.write(store))).await;
        let data = store.read(VOLUME, 0, 4096).await.unwrap();
        let end = usize::from(CLIENTS) * PART_BYTES;
        let parts = data[..end].chunks_exact(PART_BYTES);
        assert!((0..CLIENTS).zip(parts).all(|(client, part)| *part == [client; PART_BYTES]));
        assert!(data[end..].iter().all(|&byte| byte == 100));
        // And the other way round nothing of them is left.
        let whole = (0..CLIENTS).map(|_| Client::Whole(200));
        let parts = (0..CLIENTS).map(Client::Part);
        all(parts.chain(whole).map(|client| client.write(store))).await;
        assert_eq!(*store.read(VOLUME, 0, 4096).await.unwrap(), [200; 4096]);
    });
}

/// What somebody writes.
#[derive(Clone, Copy)]
enum Client {
    Whole(u8),
    Part(u8),
}

impl Client {
    async fn write(self, store: &Store<CrashDrive>) {
        match self {
            Self::Whole(value) => write_whole(store, value).await,
            Self::Part(client) => write_part(store, client).await,
        }
    }
}

#[test]
fn what_was_replaced_within_its_record_takes_no_room_in_the_cache() {
    let drive = CrashDrive::new(400, &Power::new(1));
    block_on(create(std::slice::from_ref(&drive), &options(1, 1, 50))).unwrap();
    let cache = CacheOptions { memory_bytes: 256 << 10, ..CacheOptions::default() };
    let open = OpenOptions { tuning: Tuning { cache, ..Tuning::default() }, ..usual() };
    let store = block_on(Store::open(vec![drive], open)).unwrap();
    let spawner = Spawner::default();
    spawner.spawn(async {
        assert_eq!(store.run().await, Halt::Closed);
    });
    let main = async {
        all((1..=CLIENTS).map(|value| write_whole(&store, value))).await;
        let counters = store.status().cache.unwrap().counters;
        assert_eq!(counters.written - counters.died_in_memory, 1, "{counters:?}");
        store.close().await.unwrap();
    };
    run(&spawner, main, || false);
}
