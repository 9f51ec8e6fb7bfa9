//! The strict half of reading JSON. `serde_json` reads the characters; the walk here sees every value before it is
//! kept, counts it against the bounds, and refuses numbers and names that two readers could take differently.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{self, DeserializeSeed, MapAccess, SeqAccess, Visitor};

use super::{Bounds, CanonicalError, Value};

/// One walk over a text: what is left of its bounds, and why it was refused if it was. The reason is kept here
/// because serde's error type carries only text.
pub(super) struct Walk<'a> {
    bounds: &'a Bounds,
    nodes: Cell<usize>,
    refusal: RefCell<Option<CanonicalError>>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(bounds: &'a Bounds) -> Self {
        Self { bounds, nodes: Cell::new(0), refusal: RefCell::new(None) }
    }

    /// Reads one value with everything in it.
    pub(super) fn read<'de, D: Deserializer<'de>>(&self, deserializer: D) -> Result<Value, D::Error> {
        Node { walk: self, depth: 0 }.deserialize(deserializer)
    }

    /// Why the text was refused, if it was refused here and not by the reader of JSON below.
    pub(super) fn into_refusal(self) -> Option<CanonicalError> {
        self.refusal.into_inner()
    }

    fn refuse<E: de::Error>(&self, why: CanonicalError) -> E {
        let error = E::custom(&why);
        self.refusal.replace(Some(why));
        error
    }
}

/// A value about to be read, `depth` arrays and objects down.
#[derive(Clone, Copy)]
struct Node<'a> {
    walk: &'a Walk<'a>,
    depth: usize,
}

impl Node<'_> {
    fn count<E: de::Error>(self) -> Result<(), E> {
        let nodes = self.walk.nodes.get() + 1;
        self.walk.nodes.set(nodes);
        let limit = self.walk.bounds.nodes;
        if nodes > limit { Err(self.walk.refuse(CanonicalError::TooManyNodes { limit })) } else { Ok(()) }
    }

    fn descend<E: de::Error>(self) -> Result<Self, E> {
        let limit = self.walk.bounds.depth;
        if self.depth >= limit {
            return Err(self.walk.refuse(CanonicalError::TooDeep { limit }));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        self.count()?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("canonical JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E: de::Error>(self, number: i64) -> Result<Value, E> {
        Value::integer(number).map_err(|why| self.walk.refuse(why))
    }

    fn visit_u64<E: de::Error>(self, number: u64) -> Result<Value, E> {
        let number = i64::try_from(number).map_err(|_| self.walk.refuse(CanonicalError::Number))?;
        self.visit_i64(number)
    }

    fn visit_f64<E: de::Error>(self, _: f64) -> Result<Value, E> {
        Err(self.walk.refuse(CanonicalError::Number))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.descend()?;
        let mut list = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let inner = self.descend()?;
        let mut object = BTreeMap::new();
        while let Some(name) = members.next_key::<String>()? {
            if object.contains_key(&name) {
                let name = name.chars().take(80).collect();
                return Err(self.walk.refuse(CanonicalError::DuplicateMember { name }));
            }
            object.insert(name, members.next_value_seed(inner)?);
        }
        Ok(Value::Object(object))
    }
}
