// Package wire contains the server for one listener. It accepts TCP connections, splits their bytes
// into request frames, passes the requests of a connection to a Handler one after the other, and
// sends the replies in the order of the requests. It handles the framing and the headers of the
// Kafka protocol. The only APIs that it handles itself are those for authentication (Security).
// Peer is the client side: a connection to another broker.
//
// Invariants:
//   - No allocation depends on an unverified length. The size and the API key of a frame are
//     checked before anything is allocated for it. The memory of a large frame is committed only as
//     its bytes arrive, and is charged to one budget of all connections.
//   - The bytes of a request are read from the socket into the buffer that the handler uses, and
//     are not copied again.
//   - A connection handles at most one request at a time, and sends replies in the order of its
//     requests.
//   - A frame's buffer is released when the handler calls ReleaseBody, or otherwise after the reply
//     was sent. Batches and replies may alias the buffer until then. If code uses the buffer later
//     by mistake, it reads zeros or another frame, but never memory outside of frames (ADR 0062).
//   - A frame above 16 KiB occupies its size in a budget. It does so while its peer sends it, at a
//     minimum rate, and until its request is appended, but never during a long poll (ADR 0105, ADR
//     0170). Before the append, a request waits for up to 200 ms for the metadata of a new leader
//     (ADR 0306).
//   - One client address cannot use up all connections (Options.ConnectionsPerAddressMax).
//   - A listener with TLS or authentication reads no request before the client is authenticated.
//     Until then, the client may use authFrameMax bytes, AuthenticationTimeout and authFramesMax
//     frames. The number of such connections is limited, both in total and per address.
//   - A client that fails to authenticate gets a fixed text without the reason, after FailureDelay.
//   - Only an authentication as the same principal with the same mechanism replaces a session
//     (KIP-368). Requests after its end are refused.
//   - Sending a file does not move the file's offset, because many connections send from the same
//     file at once.
//
// Goroutines: Serve accepts connections. Each connection has one goroutine that waits for the
// connection's other goroutines, and one that reads and handles requests. While a request waits,
// another goroutine reads one frame ahead, and continues with that frame's request. Reading ahead
// detects that a client has disconnected while its fetch waits: the read fails at once, and the
// context of the connection ends (ADR 0035, ADR 0198). Serve returns only after all these
// goroutines have exited.
//
// Locks: the buffer pools, the address ranges kept for large frames, the budgets, the connection
// counts, the failures and the set of open connections have one lock each. No goroutine holds two
// of them.
package wire
