package handler

import (
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// missingTopicsInterval is the minimum time between two log messages about missing topics. A client
// that waits for a topic requests it every 100 ms.
const missingTopicsInterval = time.Minute

// missingTopics limits the log messages about topics that clients request and that do not exist.
// The zero value is ready for use.
type missingTopics struct {
	mu       sync.Mutex
	loggedAt time.Time
	omitted  int // requests since loggedAt that were not logged
}

// due reports whether a request for a missing topic is to be logged, and how many requests before
// it were not.
func (m *missingTopics) due(now time.Time) (omitted int, due bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.loggedAt.IsZero() && now.Sub(m.loggedAt) < missingTopicsInterval {
		m.omitted++
		return 0, false
	}
	omitted, m.omitted = m.omitted, 0
	m.loggedAt = now
	return omitted, true
}

// logMissing logs that a client has requested topics that do not exist and that it allows to be
// created, and the setting that would create them. Clients show only that a topic is unknown.
func (h *Handler) logMissing(raw *wire.Request, policy metadata.AdminPolicy, topics []string) {
	omitted, due := h.missing.due(time.Now())
	if !due {
		return
	}
	setting := "spec.autoCreateTopics: true"
	if policy.AutoCreate { // then admin requests are rejected
		setting = "spec.adminApi: ReadWrite"
	}
	h.logger.Warn("client requested a topic that does not exist and is not created automatically",
		"topic", topics[0], "topics", len(topics), "client", raw.ClientID,
		"logClusterSettingToCreate", setting, "requestsNotLogged", omitted)
}
