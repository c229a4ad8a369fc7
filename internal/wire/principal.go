package wire

import "heartwood.dev/heartwood/internal/authz"

// Principal is the identity of a connection's client, as in Kafka's KafkaPrincipal.
type Principal = authz.Principal

// Anonymous is the principal of a connection on a listener without authentication.
var Anonymous = Principal{Type: "User", Name: "ANONYMOUS"}
