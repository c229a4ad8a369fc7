package events

// Limits of a ring.
const (
	ringEventsMax = 1024
	ringBytesMax  = 4 << 20
)

// event is one event. Event numbers start at 1.
type event struct {
	number int64
	name   string
	topic  string
	data   []byte // one line of JSON
}

// ring contains the last events: at most ringEventsMax events with at most ringBytesMax bytes of
// data, but always the newest event. The zero value is empty.
type ring struct {
	events []event // ascending by number, without gaps
	last   int64   // number of the newest event
	bytes  int
}

// add adds an event, and removes the oldest events if necessary.
func (r *ring) add(name, topic string, data []byte) {
	r.last++
	r.events = append(r.events, event{r.last, name, topic, data})
	r.bytes += len(data)
	for len(r.events) > 1 && (len(r.events) > ringEventsMax || r.bytes > ringBytesMax) {
		r.bytes -= len(r.events[0].data)
		r.events[0] = event{} // frees the event's memory
		r.events = r.events[1:]
	}
}

// after returns the events with higher numbers. Result ok is false if some of these events were
// removed. Later calls of add do not change the result.
func (r *ring) after(number int64) (events []event, ok bool) {
	missing := r.last - number
	if missing < 0 || missing > int64(len(r.events)) {
		return nil, false
	}
	return append([]event(nil), r.events[len(r.events)-int(missing):]...), true
}
