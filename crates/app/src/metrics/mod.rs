//! The accounts as Prometheus text: [`table`] says what there is, [`text`] how it is written, and
//! [`render()`] fills the one into the other.

mod exchange;
mod pools;
pub mod process;
pub mod render;
mod spread;
mod stores;
pub mod table;
pub mod text;

pub use render::render;
pub use text::CONTENT_TYPE;
