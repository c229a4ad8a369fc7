package handler

import (
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/wire"
)

const (
	// auditInterval is the time in which equal denials are folded into one message.
	auditInterval = time.Minute
	// auditKeysMax bounds the memory of the audit log. Further denials are counted together.
	auditKeysMax = 1000
)

// auditKey identifies equal denials.
type auditKey struct {
	principal wire.Principal
	required  RequiredOperation
	name      string
	api       int16
}

// auditLog folds denials: it logs the first one of its kind at once, and the number of others when
// the next one is logged, at most once in auditInterval. The zero value is ready for use.
type auditLog struct {
	mu     sync.Mutex
	begun  time.Time
	counts map[auditKey]int // denials since begun; the first was logged
	others int              // denials that exceed auditKeysMax
}

// due reports whether a denial must be logged. The result folded is the number of denials of the
// previous interval that were not logged.
func (l *auditLog) due(key auditKey, now time.Time) (folded int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.begun) >= auditInterval {
		for _, n := range l.counts {
			folded += n - 1
		}
		folded += l.others
		l.begun, l.counts, l.others = now, map[auditKey]int{}, 0
	}
	if _, known := l.counts[key]; !known && len(l.counts) >= auditKeysMax {
		l.others++
		return 0, false
	}
	l.counts[key]++
	return folded, l.counts[key] == 1
}

// auditDenied logs that a client was denied an operation on a resource that it has named. Checks
// that only filter a list, or that list the authorized operations, are not logged.
func (h *Handler) auditDenied(req *wire.Request, required RequiredOperation, name string) {
	key := auditKey{req.Principal(), required, name, req.Key}
	folded, due := h.audit.due(key, time.Now())
	if !due {
		return
	}
	rule := ""
	if h.opts.Explain != nil {
		rule = h.opts.Explain(Action{Principal: key.principal, Address: req.Address,
			RequiredOperation: required, Name: name})
	}
	h.logger.Info("operation denied", "audit", true, "principal", key.principal.String(),
		"operation", required.Operation.String(), "resourceType", required.Type.String(),
		"resource", name, "api", h.api(req.Key).name, "listener", req.Listener, "remote",
		req.Remote, "clientID", req.ClientID, "rule", rule, "deniedAndNotLogged", folded)
}

// auditWrite logs an administrative change of security.
func (h *Handler) auditWrite(req *wire.Request, args ...any) {
	h.logger.Info("user changed", append([]any{"audit", true, "principal",
		req.Principal().String(), "api", h.api(req.Key).name, "listener", req.Listener, "remote",
		req.Remote}, args...)...)
}
