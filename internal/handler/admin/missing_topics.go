package admin

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/wire"
)

// logMissing logs that a client has requested topics that do not exist, in a request that allows
// auto-creation, and which setting would create them. Clients themselves only report that the topic
// is unknown.
func (h *Handler) logMissing(raw *wire.Request, policy metadata.AdminPolicy, topics []string) {
	omitted, due := h.missing.due("", time.Now())
	if !due {
		return
	}
	setting := "spec.autoCreateTopics: true"
	if policy.AutoCreate { // auto-creation is on, but admin requests are rejected
		setting = "spec.adminAPI: ReadWrite"
	}
	h.Logger.Warn("client requested a topic that does not exist and is not created automatically",
		"topic", topics[0], "topics", len(topics), "client", raw.ClientID,
		"logClusterSettingToCreate", setting, "requestsNotLogged", omitted)
}
