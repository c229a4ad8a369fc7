package report

// FailingClients is the response of GET /api/v1/failing-clients: the clients that repeatedly fail
// to authenticate with the brokers of this process.
type FailingClients struct {
	// Clients contains at most 20 clients of each broker. A client is listed for two minutes after its
	// last failures.
	Clients []FailingClient `json:"clients"`
	// More is the number of further clients.
	More int `json:"more"`
}

// FailingClient is a user that fails to authenticate from an address.
type FailingClient struct {
	Broker   int32  `json:"broker"`
	Listener string `json:"listener"`
	Address  string `json:"address"`
	// User is absent if the client has not sent the name of an existing user.
	User string `json:"user,omitempty"`
	// Blocked is true if the broker rejects the user at this address, because of too many failures
	// during the last minute.
	Blocked bool `json:"blocked"`
}
