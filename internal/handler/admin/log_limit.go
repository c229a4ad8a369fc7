package admin

import (
	"maps"
	"sync"
	"time"
)

// logInterval is the minimum time between two log messages with the same key. It is needed because
// a client that waits for a topic requests it every 100 ms, and a sarama producer with a
// transactional id sends 50 requests when it starts.
const logInterval = time.Minute

// logKeysMax is the maximum number of keys that are logged within logInterval. It limits memory and
// log volume if clients keep using new keys.
const logKeysMax = 100

// logLimit limits how often requests cause log messages of one kind. The zero value is ready for
// use.
type logLimit struct {
	mu       sync.Mutex
	loggedAt map[string]time.Time // time of the last message, by key
	omitted  int                  // requests since the last message that were not logged
}

// due reports whether a request must be logged now. If so, due records the time, and returns the
// number of requests that were not logged since the previous message.
func (l *logLimit) due(key string, now time.Time) (omitted int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.free(key, now) {
		l.omitted++
		return 0, false
	}
	if l.loggedAt == nil {
		l.loggedAt = map[string]time.Time{}
	}
	l.loggedAt[key] = now
	omitted, l.omitted = l.omitted, 0
	return omitted, true
}

// free reports whether both limits permit a message. It removes expired keys if there are too many.
func (l *logLimit) free(key string, now time.Time) bool {
	if last, ok := l.loggedAt[key]; ok && now.Sub(last) < logInterval {
		return false
	}
	if len(l.loggedAt) >= logKeysMax {
		maps.DeleteFunc(l.loggedAt, func(_ string, last time.Time) bool {
			return now.Sub(last) >= logInterval
		})
	}
	return len(l.loggedAt) < logKeysMax
}
