package clean

// place is where a record stands: the ordinal of the record in its segment, and which of the pass's segments that is.
type place struct {
	segment uint32
	ordinal uint32
}

// table maps keys, by their hashes, to the places of their latest records. It is open addressing with linear probing, in
// shards that grow one at a time: a single table would need three times its size for a moment, each time it doubles.
//
// Keys themselves are not kept: two keys are one when 128 bits of keyed hash are equal. With 10^8 keys the odds of one false pair
// are 10^-23, and nobody can look for one without the secret (reference F5). Nothing is ever taken out, so there are no
// gravestones to skip, and find always ends: at most 7/8 of the slots are taken.
type table struct {
	shards [shards]shard // by the highest byte of hash[1]; within a shard hash[0] chooses the slot
	memory *memory
	bytes  int64 // reserved in memory for slots: slotBytes times the sum of len(slots)
}

const (
	shards          = 256
	slotBytes       = 24
	shardSlotsMin   = 8
	loadNumerator   = 7 // a shard grows when 7/8 of its slots are taken: memory is scarcer here than a few probes more
	loadDenominator = 8
)

// shard is one hash table. Invariant: used <= 7/8 of len(slots), so that find meets a free slot; both are 0 at first.
type shard struct {
	slots []slot // a power of two
	used  int
}

// slot is free when number is 0: the zero value of a fresh slice needs no initialising, and no hash is special.
type slot struct {
	hash    keyHash
	number  uint32 // place.segment + 1
	ordinal uint32
}

// put stores the place of a key's latest record and returns the place it had before; known is false for a new key. It fails
// with ErrOverBudget, and then nothing was stored. A shard may grow though the key turns out to be known: that is at worst
// one key too early.
func (t *table) put(hash keyHash, at place) (before place, known bool, err error) {
	sh := &t.shards[hash[1]>>56]
	if (sh.used+1)*loadDenominator > len(sh.slots)*loadNumerator {
		if err := t.grow(sh); err != nil {
			return place{}, false, err
		}
	}
	s := sh.find(hash)
	if known = s.number != 0; known {
		before = place{s.number - 1, s.ordinal}
	} else {
		sh.used++
	}
	*s = slot{hash, at.segment + 1, at.ordinal}
	return before, known, nil
}

// get returns the place of a key's latest record. It writes nothing.
func (t *table) get(hash keyHash) (at place, known bool) {
	sh := &t.shards[hash[1]>>56]
	if len(sh.slots) == 0 {
		return place{}, false
	}
	s := sh.find(hash)
	if s.number == 0 {
		return place{}, false
	}
	return place{s.number - 1, s.ordinal}, true
}

// find returns the slot of the hash, or the free one where it belongs. There always is a free one.
func (sh *shard) find(hash keyHash) *slot {
	mask := uint64(len(sh.slots) - 1)
	for i := hash[0] & mask; ; i = (i + 1) & mask {
		if s := &sh.slots[i]; s.number == 0 || s.hash == hash {
			return s
		}
	}
}

// grow doubles a shard. The new slots are reserved before they are made and the old ones given back after they are copied,
// so that the peak is counted too. On an error (ErrOverBudget) the shard is as it was. No key stands twice in old, so find
// gives each a free slot.
func (t *table) grow(sh *shard) error {
	slots := max(shardSlotsMin, 2*len(sh.slots))
	if err := t.memory.reserve(int64(slots) * slotBytes); err != nil {
		return err
	}
	old := sh.slots
	sh.slots = make([]slot, slots)
	for _, s := range old {
		if s.number != 0 {
			*sh.find(s.hash) = s
		}
	}
	t.memory.release(int64(len(old)) * slotBytes)
	t.bytes += int64(slots-len(old)) * slotBytes
	return nil
}

// free gives the table's memory back. It must not be used any more.
func (t *table) free() {
	t.memory.release(t.bytes)
	*t = table{}
}
