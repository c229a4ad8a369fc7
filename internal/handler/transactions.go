package handler

import (
	"maps"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/wire"
)

// refusalInterval is the minimum time between two log messages about the same transactional id.
// Without it, one start of a sarama producer would cause 50 messages.
const refusalInterval = time.Minute

// refusedIDsMax is the maximum number of transactional ids that are logged in one refusalInterval.
// It bounds the memory and the messages that clients with changing ids can cause.
const refusedIDsMax = 100

// refusalLog limits the log messages about refused transactional ids. The zero value is ready for
// use.
type refusalLog struct {
	mu       sync.Mutex
	loggedAt map[string]time.Time // time of the last message, by transactional id
}

// due reports whether a refusal must be logged. If so, it stores that the message was logged.
func (l *refusalLog) due(transactionalID string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.loggedAt[transactionalID]; ok && now.Sub(at) < refusalInterval {
		return false
	}
	if len(l.loggedAt) >= refusedIDsMax {
		maps.DeleteFunc(l.loggedAt, func(_ string, at time.Time) bool {
			return now.Sub(at) >= refusalInterval
		})
		if len(l.loggedAt) >= refusedIDsMax {
			return false
		}
	}
	if l.loggedAt == nil {
		l.loggedAt = map[string]time.Time{}
	}
	l.loggedAt[transactionalID] = now
	return true
}

// refuseTransactions returns the error for a request with a transactional id, and logs the request.
// Most clients report the error code without the broker's message, and the code alone suggests
// missing ACLs.
func (h *Handler) refuseTransactions(req *wire.Request, transactionalID string) error {
	if !h.refusals.due(transactionalID, time.Now()) {
		return errNoTransactions
	}
	h.logger.Warn("transactional id refused: transactions are not supported yet", "api",
		h.api(req.Key).name, "transactionalID", transactionalID, "clientID", req.ClientID, "remote",
		req.Remote)
	return errNoTransactions
}
