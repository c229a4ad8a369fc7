package data

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/handler/api"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/replica"
	"heartwood.dev/heartwood/internal/wire"
)

// Produce (key 0), versions 0-13.
//
//	0-2     advertised, because librdkafka below 2.11 otherwise disables compression (KAFKA-18659);
//	        refused with UNSUPPORTED_VERSION: their message formats are older than record batches
//	3       record batches (magic 2), transactional id (KIP-98)
//	5       log start offset
//	7       zstd (KIP-110)
//	8       record errors and message (KIP-467)
//	9       flexible
//	10      current leaders with errors (KIP-951)
//	11, 12  transactions, part 2 (KIP-890)
//	13      topic ids (KIP-516)
//
// A request with acks=0 has no response. If such a request fails, the broker closes the connection,
// because there is no other way to notify the client. Batches alias the frame, and the log modifies
// them in place.

// produceWaitMax limits how long a request waits for in-sync replicas, even if the client's timeout
// is longer.
const produceWaitMax = 5 * time.Minute

// Produce appends the batches that pass checkProduce, and returns a result for every partition. An
// invalid batch does not affect other partitions. Produce returns an error, which closes the
// connection, if the body cannot be decoded or a request with acks=0 has failed.
func (h *Handler) Produce(ctx context.Context, req *wire.Request) (wire.Reply, error) {
	p, err := decodeProduce(req.Version, req.Body)
	if err != nil {
		return wire.Reply{}, fmt.Errorf("decode body: %w", err)
	}
	img := h.Image()
	failures, produced := h.appendBatches(ctx, img, req, p)
	req.ReleaseBody() // produced.Wait may take minutes
	wait := min(time.Duration(max(0, p.timeoutMillis))*time.Millisecond, produceWaitMax)
	results := produced.Wait(ctx, wait)
	for i := range results {
		results[i].Err = transactionError(p.version, results[i].Err)
	}
	response, result := h.produceResponse(h.Image(), req.Listener, p, failures, results)
	if p.acks == 0 {
		return wire.Reply{None: true, Error: result.Name}, result.Err
	}
	return api.Reply(response, result), nil
}

// appendBatches appends the batches that pass checkProduce. failures contains one entry per
// partition in the order of the request: an error if the batch was not appended, otherwise nil.
// After the call, p no longer refers to the frame.
func (h *Handler) appendBatches(ctx context.Context, img *metadata.Image, req *wire.Request,
	p *produceRequest) (failures []error, produced *replica.PendingProduce) {
	failures = make([]error, len(p.partitions))
	transactional := false
	batches := make([]replica.ProducePartition, 0, len(p.partitions))
	for i := range p.partitions {
		part := &p.partitions[i]
		if p.version >= 13 {
			part.id.Topic, failures[i] = api.TopicName(img, part.topic)
		}
		if failures[i] == nil {
			failures[i] = h.Authorize(req, api.WriteTopic, part.id.Topic)
		}
		if failures[i] == nil {
			failures[i] = checkProduce(p, part)
		}
		if failures[i] == nil && isTransactional(part) {
			failures[i] = h.checkTransactional(req, p)
			transactional = true
		}
		if failures[i] == nil {
			batches = append(batches,
				replica.ProducePartition{ID: part.id, Topic: part.topic, Batch: part.records})
		}
	}
	h.Replicas.AwaitLeader(ctx, batches)
	if transactional && p.acks == replica.AcksAll && p.transactionalID != nil {
		produced = h.Replicas.AppendTransactional(ctx, replica.Transaction{
			ID: *p.transactionalID, Add: p.version >= implicitAddVersion}, batches)
	} else {
		produced = h.Replicas.Append(p.acks, batches)
	}
	for i := range p.partitions {
		p.partitions[i].records = nil
	}
	return failures, produced
}

// checkProduce checks the rules that do not concern the batch alone, such as those that depend on
// the request's version. The log checks the batch.
func checkProduce(p *produceRequest, part *producePartition) error {
	if metadata.InternalTopic(part.id.Topic) {
		return api.ErrInternalTopic
	}
	if p.version < 3 {
		return fmt.Errorf("%w: produce version %d, at least 3 is needed", api.ErrUnsupportedVersion,
			p.version)
	}
	if p.acks < -1 || p.acks > 1 {
		return fmt.Errorf("%w: %d; allowed are -1, 0 and 1", api.ErrInvalidAcks, p.acks)
	}
	b, _, err := record.Next(part.records)
	if err != nil {
		return nil //nolint:nilerr // the log rejects an invalid batch with a precise error
	}
	if p.version < 7 && b.Codec() == compress.Zstd {
		return fmt.Errorf("%w: zstd needs produce version 7", record.ErrUnsupportedCodec)
	}
	return nil
}

// produceResponse returns the response with all partitions, in the order of the request. results
// contains, in the same order, the results for the partitions whose entry in failures is nil.
func (h *Handler) produceResponse(
	img *metadata.Image, listener string, p *produceRequest, failures []error,
	results []replica.ProduceResult,
) (*kmsg.ProduceResponse, api.Outcome) {
	response := kmsg.NewPtrProduceResponse()
	response.Version = p.version
	result := h.Outcome()
	var named leaders
	end := 0
	for _, requested := range p.topics {
		topic := kmsg.NewProduceResponseTopic()
		topic.Topic, topic.TopicID = requested.name, requested.id
		topic.Partitions = make([]kmsg.ProduceResponseTopicPartition, 0, requested.count)
		for ; len(topic.Partitions) < requested.count; end++ {
			answer := replica.ProduceResult{Err: failures[end]}
			if failures[end] == nil {
				answer, results = results[0], results[1:]
			}
			part := producePartitionResponse(p.partitions[end].id, &answer, &result)
			if p.version >= 10 && isLeaderError(answer.Err) {
				if leader, led := hint(img, h.Replicas, p.partitions[end].id); led {
					part.CurrentLeader.LeaderID, part.CurrentLeader.LeaderEpoch = leader.id,
						leader.epoch
					named.add(leader.id)
				}
			}
			topic.Partitions = append(topic.Partitions, part)
		}
		response.Topics = append(response.Topics, topic)
	}
	for _, b := range named.in(img, listener) {
		response.Brokers = append(response.Brokers,
			kmsg.ProduceResponseBroker{NodeID: b.ID, Host: b.Host, Port: b.Port, Rack: b.NullableRack()})
	}
	return response, result
}

// producePartitionResponse returns the response for one partition. If there is an error, the
// offsets and the time are -1, and the invalid records are listed (KIP-467).
func producePartitionResponse(id replica.PartitionID, answer *replica.ProduceResult,
	result *api.Outcome) kmsg.ProduceResponseTopicPartition {
	out := kmsg.NewProduceResponseTopicPartition()
	out.Partition = id.Index
	out.ErrorCode = result.Code(answer.Err)
	if answer.Err == nil {
		out.BaseOffset = answer.Appended.BaseOffset
		out.LogAppendTime = answer.Appended.LogAppendTime
		out.LogStartOffset = answer.Appended.LogStart
		return out
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = -1, -1, -1
	out.ErrorMessage = api.Message(answer.Err)
	var batch *record.BatchError
	if errors.As(answer.Err, &batch) {
		// Clients print the message without the partition, so add the partition to it.
		*out.ErrorMessage += fmt.Sprintf(" in topic partition %s-%d", id.Topic, id.Index)
		for _, r := range batch.Records {
			text := fmt.Sprintf("%s in topic partition %s-%d", r.Message, id.Topic, id.Index)
			out.ErrorRecords = append(out.ErrorRecords,
				kmsg.ProduceResponseTopicPartitionErrorRecord{
					RelativeOffset: r.Index, ErrorMessage: &text,
				})
		}
	}
	return out
}
