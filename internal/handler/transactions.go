package handler

import "heartwood.dev/heartwood/internal/wire"

// refuseTransactions returns the error for a request with a transactional id, and logs the request.
// Most clients report the error code without the broker's message, and the code alone suggests
// missing ACLs.
func (h *Handler) refuseTransactions(req *wire.Request, transactionalID string) error {
	h.logger.Warn("transactional id refused: transactions are not supported yet", "api",
		h.api(req.Key).name, "transactionalID", transactionalID, "clientID", req.ClientID, "remote",
		req.Remote)
	return errNoTransactions
}
