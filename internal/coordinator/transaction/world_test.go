package transaction

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/state"
)

// errUnknown is the result of a request whose coordinator has failed, or whose record has not been
// stored.
var errUnknown = errors.New("outcome unknown")

// mutant disables one rule of the coordinator or of its runtime. The model must then find a fault.
type mutant struct {
	unsafeMarkers bool // true if markers are released before the decision is below the high watermark
	unsafeAnswers bool // true if answers are sent before the record is below the high watermark
	noResend      bool // true if a new coordinator does not send the markers again
	firstAckEnds  bool // true if the first acknowledgement completes a transaction
	anySerial     bool // true if acknowledgements of earlier markers are accepted
	noAbortTimer  bool
	// keepLastEpoch makes a request with the previous epoch count as a retry after an Init without
	// producer id.
	keepLastEpoch  bool
	noVerification bool // true if partitions accept batches without verification
	noGuard        bool // true if partitions accept batches that were verified before a marker
	noConnections  bool // true if the order of connections is ignored
	noFenceBump    bool // true if the coordinator's own abort does not change the epoch
}

// fault is the panic value of a failed check.
type fault string

// world simulates the clients, the clock, the log of one coordinator partition (with its high
// watermark and failovers), the network that transports markers, and the partitions to which the
// transactions write.
type world struct {
	mutant
	random *rand.Rand
	state  *State
	now    time.Time
	timers map[TimerKey]time.Time
	nextID int64

	log     []Record
	safe    int // number of records below the high watermark
	release []released
	// reload is the coordinator's number, which distinguishes its markers from other coordinators'
	// markers.
	reload int

	token      Token
	requests   map[Token]func(Result, error)
	markers    []inFlight
	acks       []inFlight
	late       []func() // frames of broken connections
	partitions map[Partition]*partition
	clients    []*client
	txns       []*txn
	connection uint64
	healthy    bool                  // true if no further faults are injected
	owners     map[Producer]instance // client instance that has received each producer in an answer
	delayed    []func()              // batches that leaders have verified
}

// released is an answer that waits for the high watermark.
type released struct {
	answer Answer
	end    int // number of records that must be below the high watermark
}

// inFlight is a marker on its way to a partition, or an acknowledgement on its way back.
type inFlight struct {
	marker *Marker
	to     Partition
	reload int
}

func (w *world) Set(key TimerKey, d time.Duration) {
	if !w.noAbortTimer || key.Kind != abortTimer {
		w.timers[key] = w.now.Add(d)
	}
}

func (w *world) Clear(key TimerKey) { delete(w.timers, key) }

func (w *world) fail(format string, args ...any) { panic(fault(fmt.Sprintf(format, args...))) }

func (w *world) chance(n int) bool { return w.random.IntN(n) == 0 }

func newWorld(seed uint64, m mutant) *world {
	w := &world{mutant: m, random: rand.New(rand.NewPCG(seed, 0)),
		now: time.Unix(1_700_000_000, 0), partitions: map[Partition]*partition{},
		requests: map[Token]func(Result, error){}, owners: map[Producer]instance{}}
	for i := range int32(3) {
		w.partitions[Partition{"t", i}] = newPartition()
	}
	if w.chance(3) { // In some histories, the producer id's epochs are almost exhausted.
		e := newEntry(w.now, 1_000_000, time.Minute)
		e.producer.Epoch = lastUsableEpoch - int16(w.random.IntN(6))
		w.log, w.safe = []Record{encode("id0", e)}, 1
	}
	w.load()
	return w
}

func (w *world) load() {
	w.reload++
	w.timers, w.release = map[TimerKey]time.Time{}, nil
	w.state = New(Config{ProducerID: w.producerID}, w)
	for _, r := range w.log {
		if _, err := w.state.Replay(w.now, r.Key, r.Value); err != nil {
			w.fail("replay: %v", err)
		}
	}
	out := w.state.Loaded(w.now)
	if w.noResend {
		out.Answers = nil
	}
	w.apply(out)
}

func (w *world) producerID() (int64, error) {
	w.nextID++
	return w.nextID, nil
}

// failover replaces the coordinator. Records above the high watermark may be lost.
func (w *world) failover() {
	w.log = w.log[:w.safe+w.random.IntN(len(w.log)-w.safe+1)]
	w.late = nil // the frames were sent to the earlier coordinator's broker
	waiting := w.requests
	w.requests = map[Token]func(Result, error){}
	w.load()
	for _, token := range slices.Sorted(keysOf(waiting)) {
		waiting[token](Result{}, errUnknown)
	}
}

func keysOf(m map[Token]func(Result, error)) func(func(Token) bool) {
	return func(yield func(Token) bool) {
		for token := range m {
			if !yield(token) {
				return
			}
		}
	}
}

// apply processes an output as the runtime does. Sometimes only the first records can be stored.
func (w *world) apply(out Output) {
	answers, n := out.Answers, len(out.Records)
	failed := !w.healthy && n > 0 && w.chance(12)
	if failed {
		n = w.random.IntN(n)
		for i := range answers {
			answers[i].Err = errUnknown
		}
	}
	for _, r := range out.Records[:n] {
		w.log = append(w.log, r)
		more, err := w.state.Replay(w.now, r.Key, r.Value)
		if err != nil {
			w.fail("replay: %v", err)
		}
		w.corrupt(r)
		for _, a := range more {
			w.release = append(w.release, released{a, len(w.log)})
		}
	}
	for _, a := range answers {
		w.release = append(w.release, released{a, len(w.log)})
	}
	w.advance()
}

// corrupt changes the stored state as required by the mutant.
func (w *world) corrupt(Record) {
	for _, t := range w.state.byID {
		if w.keepLastEpoch && t.phase == Empty && t.lastEpoch == noEpoch {
			t.lastEpoch = t.producer.Epoch - 1
		}
		if w.noFenceBump && t.phase == PrepareAbort && t.lastEpoch == noEpoch && t.version == 0 {
			t.producer.Epoch--
			t.lastEpoch = -2
		}
	}
}

// advance raises the high watermark, and delivers the answers that have waited for it.
func (w *world) advance() {
	if w.healthy || !w.chance(4) {
		w.safe += w.random.IntN(len(w.log) - w.safe + 1)
	}
	if w.healthy {
		w.safe = len(w.log)
	}
	var due []Answer
	w.release = slices.DeleteFunc(w.release, func(r released) bool {
		marker := r.answer.To == state.Effect
		ok := r.end <= w.safe || marker && w.unsafeMarkers || !marker && w.unsafeAnswers
		if ok {
			due = append(due, r.answer)
		}
		return ok
	})
	for _, a := range due {
		w.deliver(a)
	}
}

func (w *world) deliver(a Answer) {
	if a.To == state.Effect {
		for _, p := range a.Result.Marker.Partitions {
			w.markers = append(w.markers, inFlight{a.Result.Marker, p, w.reload})
		}
		return
	}
	answer := w.requests[a.To]
	if answer == nil {
		w.fail("token %d was answered twice, or belongs to no request", a.To)
	}
	delete(w.requests, a.To)
	answer(a.Result, a.Err)
}

// request returns a token. The answer to the token is passed to then.
func (w *world) request(then func(Result, error)) Token {
	w.token++
	w.requests[w.token] = then
	return w.token
}

// writeMarker delivers a random marker. A partition may receive a marker again if the
// acknowledgement was lost, and may receive markers of earlier coordinators.
func (w *world) writeMarker() {
	if len(w.markers) == 0 {
		return
	}
	i := w.random.IntN(len(w.markers))
	m := w.markers[i]
	acknowledged := w.partitions[m.to].mark(m.marker, m.reload)
	if acknowledged {
		w.acks = append(w.acks, m)
	}
	if !acknowledged && m.reload == w.reload || !w.healthy && w.chance(3) {
		return // the marker will be sent again
	}
	w.markers = slices.Delete(w.markers, i, i+1)
}

// acknowledge delivers a random acknowledgement, sometimes twice.
func (w *world) acknowledge() {
	if len(w.acks) == 0 {
		return
	}
	i := w.random.IntN(len(w.acks))
	a := w.acks[i]
	if w.healthy || !w.chance(3) {
		w.acks = slices.Delete(w.acks, i, i+1)
	}
	// The sender stops. The leader rejects markers that were sent on its earlier connections.
	w.markers = slices.DeleteFunc(w.markers, func(m inFlight) bool { return m == a })
	t := w.state.byID[a.marker.ID]
	if a.reload != w.reload && !w.anySerial || t == nil {
		return // the runtime drops acknowledgements of an earlier coordinator's markers
	}
	serial, partitions := a.marker.Serial, []Partition{a.to}
	if w.anySerial {
		serial = t.serial
	}
	if w.firstAckEnds {
		partitions = t.partitions
	}
	w.apply(w.state.Acknowledged(w.now, a.marker.ID, serial, partitions))
}

// fire advances the clock and fires expired timers. It also fires some timers too early.
func (w *world) fire() {
	w.now = w.now.Add(time.Duration(w.random.IntN(1500)) * time.Millisecond)
	var due []TimerKey
	for key, moment := range w.timers {
		if !moment.After(w.now) {
			due = append(due, key)
		}
	}
	slices.SortFunc(due, func(a, b TimerKey) int {
		return 2*compareStrings(a.ID, b.ID) + int(a.Kind-b.Kind)/2
	})
	for _, key := range due {
		if moment, set := w.timers[key]; set && !moment.After(w.now) {
			delete(w.timers, key)
			w.apply(w.state.Fire(w.now, key))
		}
	}
}

func compareStrings(a, b string) int {
	return slices.Compare([]byte(a), []byte(b))
}

// step performs one random action.
func (w *world) step() {
	switch n := w.random.IntN(100); {
	case n < 46:
		w.clients[w.random.IntN(len(w.clients))].act()
	case n < 61:
		w.writeMarker()
	case n < 76:
		w.acknowledge()
	case n < 84:
		w.fire()
	case n < 90:
		w.advance()
	case n < 91 && !w.healthy:
		w.failover()
	case n < 95:
		w.late = w.runOne(w.late)
	default:
		w.delayed = w.runOne(w.delayed)
	}
}

// runOne calls a random function in a list, and removes it.
func (w *world) runOne(list []func()) []func() {
	if len(list) == 0 {
		return list
	}
	i := w.random.IntN(len(list))
	list[i]()
	return slices.Delete(list, i, i+1)
}
