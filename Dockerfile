# Builds the image with a container engine; `make image` writes the same image without one.
FROM golang:1.26 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=dev
ARG COMMIT=unknown
RUN make build VERSION="$VERSION" COMMIT="$COMMIT"

FROM scratch
ARG VERSION=dev
ARG COMMIT=unknown
LABEL org.opencontainers.image.title="heartwood" \
      org.opencontainers.image.description="Compacting log for Kubernetes with the Kafka protocol" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$COMMIT"
COPY --from=build /src/bin/heartwood /heartwood
ENV PATH=/
USER 65532:65532
ENTRYPOINT ["/heartwood"]
