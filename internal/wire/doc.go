// Package wire serves one listener: it accepts TCP connections, splits their bytes into request
// frames, passes the requests of a connection to a Handler one after the other, and sends the
// replies in the order of the requests. It knows the framing and the headers of the Kafka protocol
// and nothing of its APIs. Peer is the client side: a connection to another broker.
//
// Invariants:
//   - No allocation depends on an unverified length: size and API key are checked first, and the
//     memory of a large frame is committed only as its bytes arrive, charged to one budget of all
//     connections.
//   - The bytes of a request are read from the socket into the buffer that the handler uses, and
//     are not copied again.
//   - A connection handles at most one request at a time, and sends replies in the order of its
//     requests.
//   - The buffer of a frame is released when its handler releases the body, else after the reply
//     was sent: batches and replies may alias it until then. A later use by mistake reads zeros or
//     another frame, never memory outside of frames (ADR 0062).
//   - A frame above 16 KiB holds a share of the budget of its size. The share waits for its peer,
//     at a bounded pace, or for an append, and never for a long poll (ADR 0105, ADR 0170).
//   - No client address can hold all connections.
//   - The offset of a file that a reply sends from never moves: many connections send from the same
//     file at once.
//
// Goroutines: Serve accepts. Each connection has one goroutine that joins the others, and one that
// reads and answers. While a request waits, another goroutine reads one frame ahead and continues
// with it. Reading ahead detects that a client is gone while its fetch waits: the read fails at
// once, and the context of the connection ends (ADR 0035, ADR 0198). All are joined before Serve
// returns. The only locks are those of the pools, of the address ranges kept for large frames, of
// the budgets and of the connection counts; none is held while another is taken.
package wire
