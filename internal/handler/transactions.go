package handler

import (
	"time"

	"heartwood.dev/heartwood/internal/wire"
)

// refuseTransactions returns the error for a request with a transactional id, and logs the request.
// Most clients report the error code without the broker's message, and the code alone suggests
// missing ACLs.
func (h *Handler) refuseTransactions(req *wire.Request, transactionalID string) error {
	omitted, due := h.refusals.due(transactionalID, time.Now())
	if !due {
		return errNoTransactions
	}
	h.logger.Warn("transactional id refused: transactions are not supported yet", "api",
		h.api(req.Key).name, "transactionalID", transactionalID, "clientID", req.ClientID, "remote",
		req.Remote, "requestsNotLogged", omitted)
	return errNoTransactions
}
