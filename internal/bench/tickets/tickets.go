package tickets

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// SizeMin is the smallest size of a record in bytes.
const SizeMin = 40

// Stream generates the change stream of a help desk: JSON records with the same fields, different
// ids, times and addresses, and text of ordinary words. zstd compresses a megabyte of these records
// about 4:1, as it does with real tickets.
type Stream struct {
	random *rand.Rand
	common *rand.Zipf // selects words and people: a few are frequent, and most are rare
	now    int64      // time of the current record, in ms
	id     int64
}

// New returns the Stream for a seed.
func New(seed uint64) *Stream {
	random := rand.New(rand.NewPCG(seed, 0x7469636b657473))
	return &Stream{random: random, common: rand.NewZipf(random, 1.25, 4, uint64(len(words)-1)),
		now: 1_700_000_000_000, id: 10_000_000}
}

// Next returns a record. The key and the value together have size bytes; size must be at least
// SizeMin. The value is JSON, with text that is truncated or extended to this size. If the size is
// too small for a ticket, the value is an event, or an object with only one field.
func (t *Stream) Next(size int) (key, value []byte, timestampMs int64) {
	t.now += t.random.Int64N(40)
	t.id += 1 + t.random.Int64N(3)
	id := t.id
	if t.random.IntN(3) == 0 { // an update of an earlier ticket
		id -= t.random.Int64N(5000)
	}
	key = fmt.Appendf(nil, "ticket:%d", id)
	room := size - len(key)
	if room >= 400 {
		value = t.ticket(id, room)
	}
	if value == nil {
		value = t.event(room)
	}
	if value == nil {
		value = t.fill([]byte(`{"to":"`), `"}`, room)
	}
	return key, value, t.now
}

// Letters returns a value of random capital letters for a record without a key.
func (t *Stream) Letters(size int) (value []byte, timestampMs int64) {
	value = make([]byte, size)
	for i := range value {
		value[i] = byte('A' + t.random.IntN(26))
	}
	return value, t.now
}

// event returns the value of a short record that describes one changed field, or nil if size is too
// small.
func (t *Stream) event(size int) []byte {
	head := fmt.Appendf(nil, `{"at":%d,"by":%d,"set":%q,"to":"`, t.now, 400_000+t.common.Uint64(),
		pick(t.random, fields))
	return t.fill(head, `"}`, size)
}

// ticket returns the value of a record that contains a complete ticket, or nil if size is too
// small.
func (t *Stream) ticket(id int64, size int) []byte {
	first, last := t.name(), t.name()
	head := fmt.Appendf(
		nil,
		`{"id":%d,"url":"https://%s.example.com/api/v2/tickets/%d.json","external_id":"%016x","created_at":"%s",`+
			`"updated_at":"%s","type":"%s","priority":"%s","status":"%s","requester":{"id":%d,"name":"%s %s","email":"%s.%s@%s.example",`+
			`"locale":"%s"},"assignee_id":%d,"group_id":%d,"tags":["%s","%s","%s"],"via":{"channel":"%s","source":{"from":{"address":`+
			`"%s@%s.example"},"rel":null}},"custom_fields":[{"id":%d,"value":"%s"},{"id":%d,"value":%d},{"id":%d,"value":null}],`+
			`"satisfaction_rating":{"score":"%s"},"has_incidents":%t,"is_public":%t,"subject":"%s","description":"`,
		id,
		t.word(),
		id,
		t.random.Uint64(),
		t.time(t.now-t.random.Int64N(1e9)),
		t.time(t.now),
		pick(t.random, kinds),
		pick(t.random, priorities),
		pick(t.random, states),
		100_000_000+t.random.Int64N(1e7),
		first,
		last,
		strings.ToLower(first),
		strings.ToLower(last),
		t.word(),
		pick(t.random, locales),
		400_000+t.common.Uint64(),
		7000+t.random.IntN(40),
		t.word(),
		t.word(),
		t.word(),
		pick(t.random, channels),
		strings.ToLower(t.name()),
		t.word(),
		360_000_001,
		t.word(),
		360_000_002,
		t.random.IntN(100_000),
		360_000_003,
		pick(t.random, scores),
		t.random.IntN(9) == 0,
		t.random.IntN(3) > 0,
		t.sentence(5),
	)
	return t.fill(head, `"}`, size)
}

// fill appends sentences and tail to head, and truncates the sentences so that the result has size
// bytes. It returns nil if size is too small for head and tail.
func (t *Stream) fill(head []byte, tail string, size int) []byte {
	if len(head)+len(tail) > size {
		return nil
	}
	for len(head) < size {
		if t.random.IntN(6) == 0 {
			head = fmt.Appendf(head, "Order %08d, device %x. ", t.random.IntN(1e8),
				t.random.Uint32())
		}
		if t.random.IntN(5) < 2 { // phrases that are frequent in real tickets
			head = append(head, phrases[t.common.Uint64()%uint64(len(phrases))]...)
		} else {
			head = append(head, t.sentence(4+t.random.IntN(12))...)
		}
		head = append(head, ". "...)
	}
	return append(head[:size-len(tail)], tail...)
}

// sentence returns a sentence of n words.
func (t *Stream) sentence(n int) string {
	var b strings.Builder
	for i := range n {
		if i > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(t.word())
	}
	return b.String()
}

func (t *Stream) word() string { return words[t.common.Uint64()] }

// name returns a name made of random syllables. There are many different names.
func (t *Stream) name() string {
	var b strings.Builder
	for range 2 + t.random.IntN(2) {
		b.WriteString(pick(t.random, syllables))
	}
	name := b.String()
	return strings.ToUpper(name[:1]) + name[1:]
}

// time formats ms approximately as RFC 3339: every month has 30 days.
func (t *Stream) time(ms int64) string {
	s := ms / 1000
	return fmt.Sprintf("2026-%02d-%02dT%02d:%02d:%02dZ", s/2_592_000%12+1, s/86_400%30+1, s/3600%24,
		s/60%60, s%60)
}

func pick(random *rand.Rand, names []string) string { return names[random.IntN(len(names))] }
