// Package wire is the listener: it takes TCP connections, cuts their bytes into request frames,
// hands these to a Handler one after the other, and sends the replies in the order of the requests.
// It knows framing and headers of the Kafka protocol, nothing of its APIs. Peer is the other end: a
// connection to another broker's listener.
//
// Invariants:
//   - Nothing is allocated on a peer's word alone: size and API key are checked first, and a large
//     frame's memory is taken only as its bytes arrive, charged to one budget for all connections.
//   - A request's bytes are read from the socket into the one place where the handler finds them,
//     and are not moved again.
//   - A connection has at most one request in hand; its replies leave in the order its requests
//     came.
//   - A frame's buffer is given back when its handler drops it, else once the reply was sent:
//     batches and replies may alias it until then. Nothing else may, and what does by mistake sees
//     zeros or another frame, never memory that is not a frame's (docs/adr/0062).
//   - A frame above 16 KiB holds a share of the budget of its size. The share waits for its peer,
//     at a bounded pace, or for an append; never for an answer that waits (docs/adr/0105, 0170).
//   - No address has all the connections.
//   - The offset of a file that a reply sends from is never moved: many connections send from the
//     same file at once.
//
// Goroutines: Serve accepts. Each connection has one that joins the others, and one that reads and
// answers; while a request waits, another reads one frame ahead, and goes on with it. Reading ahead
// is how a client's going is noticed while its fetch waits: the read fails at once, and the
// connection's context ends (docs/adr/0035, 0198). All are joined before Serve returns. There are
// no locks here besides those of the pools, of the ranges kept for large frames, of the budgets,
// and of the counts of connections.
package wire
