//! A protobuf message, field by field, where it lies.

use super::Wrong;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Value<'a> {
    Number(u64),
    Eight(u64),
    Bytes(&'a [u8]),
    Four(u32),
}

/// The fields of a message, in the order in which they stand there.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
}

const CUT: Wrong = "a message that is cut off";

impl<'a> Fields<'a> {
    pub(super) fn of(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    #[inline]
    fn read(&mut self) -> Result<(u64, Value<'a>), Wrong> {
        let tag = varint(&mut self.rest)?;
        let value = match tag & 7 {
            0 => Value::Number(varint(&mut self.rest)?),
            1 => Value::Eight(u64::from_le_bytes(*self.chunk()?)),
            2 => {
                let len = usize::try_from(varint(&mut self.rest)?).map_err(|_| CUT)?;
                let (bytes, rest) = self.rest.split_at_checked(len).ok_or(CUT)?;
                self.rest = rest;
                Value::Bytes(bytes)
            }
            5 => Value::Four(u32::from_le_bytes(*self.chunk()?)),
            _ => return Err("a kind of field that there is not"),
        };
        Ok((tag >> 3, value))
    }

    #[inline]
    fn chunk<const N: usize>(&mut self) -> Result<&'a [u8; N], Wrong> {
        let (chunk, rest) = self.rest.split_first_chunk().ok_or(CUT)?;
        self.rest = rest;
        Ok(chunk)
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Wrong>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let read = self.read();
        if read.is_err() {
            // Nothing behind it can be read either.
            self.rest = &[];
        }
        Some(read)
    }
}

/// Appends the numbers of a packed field.
pub(super) fn packed(mut rest: &[u8], into: &mut Vec<u64>) -> Result<(), Wrong> {
    while !rest.is_empty() {
        into.push(varint(&mut rest)?);
    }
    Ok(())
}

#[inline]
fn varint(rest: &mut &[u8]) -> Result<u64, Wrong> {
    // Nearly all are of one byte.
    if let Some((&byte, tail)) = rest.split_first()
        && byte < 0x80
    {
        *rest = tail;
        return Ok(u64::from(byte));
    }
    let mut value = 0;
    for (at, byte) in rest.iter().enumerate().take(10) {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            *rest = &rest[at + 1..];
            return Ok(value);
        }
    }
    Err(CUT)
}
