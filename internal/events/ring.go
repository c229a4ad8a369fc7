package events

// Limits of a Ring.
const (
	ringEventsMax = 1024
	ringBytesMax  = 4 << 20
)

// event is one event. Events are numbered from 1.
type event struct {
	number int64
	name   string
	topic  string
	data   []byte // one line of JSON
}

// ring contains the last events: at most ringEventsMax of them, with at most ringBytesMax of data,
// but always the newest. The zero value is empty.
type ring struct {
	events []event // ascending without gaps
	last   int64   // number of the last event that was added
	bytes  int
}

// add adds an event, and removes the oldest ones if necessary.
func (r *ring) add(name, topic string, data []byte) {
	r.last++
	r.events = append(r.events, event{r.last, name, topic, data})
	r.bytes += len(data)
	for len(r.events) > 1 && (len(r.events) > ringEventsMax || r.bytes > ringBytesMax) {
		r.bytes -= len(r.events[0].data)
		r.events[0] = event{} // its memory
		r.events = r.events[1:]
	}
}

// after returns the events with higher numbers; ok is false if some of them were removed. Later
// calls of add do not change the result.
func (r *ring) after(number int64) (events []event, ok bool) {
	missing := r.last - number
	if missing < 0 || missing > int64(len(r.events)) {
		return nil, false
	}
	return append([]event(nil), r.events[len(r.events)-int(missing):]...), true
}
