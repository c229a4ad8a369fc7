package api

import (
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/outage"
	"heartwood.dev/heartwood/internal/wire"
)

// auditKey identifies equal denials.
type auditKey struct {
	principal wire.Principal
	required  RequiredOperation
	name      string
	api       int16
}

// auditLog limits how often equal denials are logged.
type auditLog struct {
	mu   sync.Mutex
	fold outage.Fold[auditKey]
}

// due reports whether a denial must be logged. folded is the number of equal denials since the last
// log message.
func (l *auditLog) due(key auditKey, now time.Time) (folded int, due bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.fold.Add(key, now)
}

// AuditDenied logs that a client was denied an operation on a resource named in its request. It
// must not be called for checks that only filter a list or list the authorized operations.
func (a *Access) AuditDenied(req *wire.Request, required RequiredOperation, name string) {
	key := auditKey{req.Principal(), required, name, req.Key}
	folded, due := a.audit.due(key, time.Now())
	if !due {
		return
	}
	api, _ := a.Row(req.Key)
	rule := ""
	if a.Explain != nil {
		rule = a.Explain(Action{Principal: key.principal, Address: req.Address,
			RequiredOperation: required, Name: name})
	}
	a.Logger.Info("operation denied", "audit", true, "principal", key.principal.String(),
		"operation", required.Operation.String(), "resourceType", required.Type.String(),
		"resource", name, "api", api, "listener", req.Listener, "remote",
		req.Remote, "clientID", req.ClientID, "rule", rule, "deniedAndNotLogged", folded)
}

// AuditWrite logs an administrative change of security settings.
func (a *Access) AuditWrite(req *wire.Request, args ...any) {
	api, _ := a.Row(req.Key)
	a.Logger.Info("user changed", append([]any{"audit", true, "principal",
		req.Principal().String(), "api", api, "listener", req.Listener, "remote",
		req.Remote}, args...)...)
}
