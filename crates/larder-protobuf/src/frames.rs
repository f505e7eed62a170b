//! The frames of a watch: four bytes of length, the highest first, and a bare `WatchEvent`.

use crate::envelope::Envelope;
use crate::error::{Fault, Problem, ProtobufError};
use crate::output::Backward;
use crate::schema::Message;
use crate::wire::{self, Cursor, LEN, Scalar};
use zeroize::{Zeroize as _, Zeroizing};

/// Bytes of the length of a frame.
const HEAD: usize = 4;

/// The frames of a watch, out of the chunks in which they come.
///
/// It holds at most one frame, which is at most as long as the bound. What it held is overwritten.
///
/// ```
/// use larder_protobuf::{Envelope, Frames, Message, WatchEvent};
///
/// let object = Envelope::new(Message::Pod, b"").to_bytes();
/// let sent = WatchEvent { event: "ADDED", object: &object }.to_frame();
/// let (first, second) = sent.split_at(7);
///
/// let mut frames = Frames::new(1 << 20);
/// let mut chunk = first;
/// assert_eq!(frames.next(&mut chunk)?, None);
/// let mut chunk = second;
/// let frame = frames.next(&mut chunk)?.expect("a frame");
/// assert_eq!(WatchEvent::parse(frame)?.event, "ADDED");
/// assert_eq!(frames.next(&mut chunk)?, None);
/// frames.finish()?;
/// # Ok::<(), larder_protobuf::ProtobufError>(())
/// ```
pub struct Frames {
    /// The beginning of a frame with its length; or a whole frame, until the next is asked for.
    held: Zeroizing<Vec<u8>>,
    is_whole: bool,
    most: usize,
}

impl std::fmt::Debug for Frames {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Frames({} bytes held, at most {})", self.held.len(), self.most)
    }
}

impl Frames {
    /// No frame yet, and none may be longer than so many bytes.
    pub fn new(most: usize) -> Self {
        Self { held: Zeroizing::default(), is_whole: false, most }
    }

    /// The next frame without its length; none if the rest of the chunk, which is held then, has no whole frame. What it takes is taken
    /// off the chunk.
    ///
    /// # Errors
    ///
    /// The frame is longer than the bound. The watch is of no more use then.
    pub fn next<'a, 'c: 'a>(&'a mut self, chunk: &mut &'c [u8]) -> Result<Option<&'a [u8]>, ProtobufError> {
        if self.is_whole {
            self.clear();
        }
        if self.held.is_empty() {
            // A frame that is whole in the chunk is not copied.
            if let Some((head, rest)) = chunk.split_at_checked(HEAD) {
                let length = self.length(head)?;
                if let Some((frame, rest)) = rest.split_at_checked(length) {
                    *chunk = rest;
                    return Ok(Some(frame));
                }
            }
        }
        self.take(HEAD, chunk);
        let Some(head) = self.held.get(..HEAD) else { return Ok(None) };
        let length = self.length(head)?;
        self.take(HEAD + length, chunk);
        self.is_whole = self.held.len() == HEAD + length;
        Ok(if self.is_whole { self.held.get(HEAD..) } else { None })
    }

    /// The end of the watch.
    ///
    /// # Errors
    ///
    /// A frame has begun, and not ended.
    pub fn finish(&self) -> Result<(), ProtobufError> {
        if self.held.is_empty() || self.is_whole {
            return Ok(());
        }
        Err(ProtobufError::FrameIncomplete { bytes: self.held.len() })
    }

    fn length(&self, head: &[u8]) -> Result<usize, ProtobufError> {
        let length = head.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        if length > self.most {
            return Err(ProtobufError::FrameTooLong { length, most: self.most });
        }
        Ok(length)
    }

    /// Takes bytes off the chunk until so many are held.
    fn take(&mut self, len: usize, chunk: &mut &[u8]) {
        let count = len.saturating_sub(self.held.len()).min(chunk.len());
        let (taken, rest) = chunk.split_at(count);
        let needed = self.held.len() + count;
        if needed > self.held.capacity() {
            // A frame may announce more than ever comes, so the memory follows what has come.
            let capacity = needed.max(2 * self.held.capacity()).min(self.most.saturating_add(HEAD));
            let mut larger = Zeroizing::new(Vec::with_capacity(capacity));
            larger.extend_from_slice(&self.held);
            self.held = larger;
        }
        self.held.extend_from_slice(taken);
        *chunk = rest;
    }

    fn clear(&mut self) {
        // The memory of a large frame, as of a list in one event, is given back.
        if self.held.capacity() > 64 << 10 {
            self.held = Zeroizing::default();
        } else {
            self.held.zeroize();
        }
        self.is_whole = false;
    }
}

/// An event of a watch.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct WatchEvent<'a> {
    /// What has happened: `ADDED`, `MODIFIED`, `DELETED`, `BOOKMARK` or `ERROR`.
    pub event: &'a str,
    /// The object in its envelope; of an `ERROR` a `Status`.
    pub object: &'a [u8],
}

impl std::fmt::Debug for WatchEvent<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "WatchEvent({:?}, {} bytes)", self.event, self.object.len())
    }
}

impl<'a> WatchEvent<'a> {
    /// Reads what is in a frame. The object is not read.
    ///
    /// # Errors
    ///
    /// The bytes are no event.
    pub fn parse(frame: &'a [u8]) -> Result<Self, ProtobufError> {
        let read = || {
            let ([event, object], _) = wire::small(Cursor::whole(frame), [LEN; 2])?;
            let bytes = |value: Option<Scalar>| value.map(Scalar::bytes).unwrap_or_default();
            let event = bytes(event);
            let ([raw], _) = wire::small(Cursor::new(frame, bytes(object)), [LEN; 1])?;
            match std::str::from_utf8(event.of(frame)) {
                Ok(text) => Ok(Self { event: text, object: bytes(raw).of(frame) }),
                Err(_) => Err(Fault::new(Problem::Utf8, event.start)),
            }
        };
        read().map_err(|Fault { problem, byte }| ProtobufError::Protobuf {
            message: Message::WatchEvent,
            path: String::new(),
            byte,
            problem,
        })
    }

    /// The envelope of the object.
    ///
    /// # Errors
    ///
    /// The object has no envelope, or a malformed one.
    pub fn envelope(&self) -> Result<Envelope<'a>, ProtobufError> {
        Envelope::parse(self.object)
    }

    /// The event as the API server writes it, with its length before it. The bytes are overwritten when they are dropped.
    ///
    /// An event is never longer than its four bytes can say: the caller's objects are bounded by far less.
    pub fn to_frame(&self) -> Zeroizing<Vec<u8>> {
        let mut out = Backward::with_capacity(self.object.len() + 64);
        out.value(1, self.object);
        out.header(2, out.len());
        out.value(1, self.event.as_bytes());
        out.put(&u32::try_from(out.len()).unwrap_or(u32::MAX).to_be_bytes());
        out.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[test]
    fn a_frame_beyond_the_bound_is_refused_before_it_comes() {
        let mut frames = Frames::new(10);
        let error = frames.next(&mut &[0, 0, 0, 11][..]).unwrap_err();
        assert_eq!(error, ProtobufError::FrameTooLong { length: 11, most: 10 });
        let mut frames = Frames::new(10);
        assert_eq!(frames.next(&mut &[0xff][..]), Ok(None));
        assert!(frames.next(&mut &[0xff; 3][..]).is_err());
    }

    #[test]
    fn a_watch_that_ends_within_a_frame_is_noticed() {
        let mut frames = Frames::new(10);
        assert_eq!(frames.next(&mut &[0, 0, 0, 2, 1][..]), Ok(None));
        assert_eq!(frames.finish(), Err(ProtobufError::FrameIncomplete { bytes: 5 }));
        assert_eq!(frames.next(&mut &[7][..]), Ok(Some(&[1, 7][..])));
        assert_eq!(frames.finish(), Ok(()));
    }

    #[test]
    fn memory_follows_what_has_come() {
        let mut frames = Frames::new(1 << 30);
        assert_eq!(frames.next(&mut &[0x20, 0, 0, 0, 1, 2, 3][..]), Ok(None));
        assert!(frames.held.capacity() < 100);
    }

    proptest! {
        #[test]
        fn frames_are_the_same_in_any_chunks(
            sent in vec(vec(any::<u8>(), 0..40), 0..12),
            sizes in vec(1_usize..9, 1..20),
        ) {
            let mut bytes = Vec::new();
            for frame in &sent {
                bytes.extend(u32::try_from(frame.len()).unwrap().to_be_bytes());
                bytes.extend(frame);
            }
            let (mut frames, mut came, mut rest) = (Frames::new(40), Vec::new(), &bytes[..]);
            let mut sizes = sizes.iter().cycle();
            while !rest.is_empty() {
                let (mut chunk, behind) = rest.split_at((*sizes.next().unwrap()).min(rest.len()));
                rest = behind;
                while let Some(frame) = frames.next(&mut chunk).unwrap() {
                    came.push(frame.to_vec());
                }
                prop_assert!(chunk.is_empty());
            }
            prop_assert!(frames.finish().is_ok());
            prop_assert_eq!(came, sent);
        }
    }
}
