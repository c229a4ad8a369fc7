package handler

import (
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/wire"
)

// refusalInterval is the minimum time between two log messages about the same transactional id.
// Without it, one start of a sarama producer would cause 50 messages.
const refusalInterval = time.Minute

// refusalLog limits the log messages about refused transactional ids.
type refusalLog struct {
	mu       sync.Mutex
	id       string // the transactional id of the last message
	loggedAt time.Time
}

// due reports whether a refusal must be logged, and records that it was.
func (l *refusalLog) due(transactionalID string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.id == transactionalID && now.Sub(l.loggedAt) < refusalInterval {
		return false
	}
	l.id, l.loggedAt = transactionalID, now
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
