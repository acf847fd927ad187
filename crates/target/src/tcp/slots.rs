//! Values by ids that are never used twice.

/// Values in slots. An id names a slot and its generation, so that an id of a value that was removed finds nothing.
pub struct Slots<T> {
    places: Vec<Place<T>>,
    vacant: Vec<u32>,
}

struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slots<T> {
    fn default() -> Self {
        Slots { places: Vec::new(), vacant: Vec::new() }
    }
}

/// The slot of an id.
fn slot(id: u64) -> usize {
    (id >> 32) as usize
}

fn id(slot: usize, generation: u32) -> u64 {
    (slot as u64) << 32 | u64::from(generation)
}

impl<T> Slots<T> {
    /// Puts in a value; its id.
    pub fn insert(&mut self, value: T) -> u64 {
        if let Some(vacant) = self.vacant.pop()
            && let Some(place) = self.places.get_mut(vacant as usize)
        {
            place.value = Some(value);
            return id(vacant as usize, place.generation);
        }
        self.places.push(Place { generation: 0, value: Some(value) });
        id(self.places.len() - 1, 0)
    }

    /// Puts in a value that is made with its id.
    ///
    /// # Errors
    /// It cannot be made.
    pub fn insert_with<E>(&mut self, make: impl FnOnce(u64) -> Result<T, E>) -> Result<u64, E> {
        let slot = self.vacant.last().copied().unwrap_or(self.places.len() as u32) as usize;
        let generation = self.places.get(slot).map_or(0, |place| place.generation);
        let value = make(id(slot, generation))?;
        Ok(self.insert(value))
    }

    /// The value with that id.
    pub fn get(&self, id: u64) -> Option<&T> {
        let place = self.places.get(slot(id))?;
        place.value.as_ref().filter(|_| place.generation == id as u32)
    }

    /// The value with that id.
    pub fn get_mut(&mut self, id: u64) -> Option<&mut T> {
        let place = self.places.get_mut(slot(id))?;
        place.value.as_mut().filter(|_| place.generation == id as u32)
    }

    /// Takes out the value with that id.
    pub fn remove(&mut self, id: u64) -> Option<T> {
        let place = self.places.get_mut(slot(id)).filter(|place| place.generation == id as u32)?;
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.vacant.push(slot(id) as u32);
        Some(value)
    }

    /// All values with their ids.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u64, &mut T)> {
        let places = self.places.iter_mut().enumerate();
        places.filter_map(|(slot, place)| {
            let id = id(slot, place.generation);
            place.value.as_mut().map(|value| (id, value))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_a_removed_value_finds_nothing() {
        let mut slots = Slots::default();
        let first = slots.insert("a");
        assert_eq!(slots.get(first), Some(&"a"));
        assert_eq!(slots.remove(first), Some("a"));
        let second = slots.insert("b");
        assert_ne!(first, second);
        assert_eq!(slots.get(first), None);
        assert_eq!(slots.get_mut(first), None);
        assert_eq!(slots.remove(first), None);
        assert_eq!(slots.iter_mut().collect::<Vec<_>>(), [(second, &mut "b")]);
        let mut told = 0;
        let third = slots.insert_with(|id| {
            told = id;
            Ok::<_, ()>("c")
        });
        assert_eq!((third, slots.get(told)), (Ok(told), Some(&"c")));
        assert_eq!(slots.insert_with(|_| Err("no")), Err("no"));
    }
}
