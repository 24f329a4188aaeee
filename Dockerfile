# The command in an image of its own: docker build -t slidegate .
FROM golang:1.26 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 GOWORK=off go build -C cmd/slidegate -trimpath -ldflags=-s -o /slidegate .

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /slidegate /slidegate
USER 65534:65534
ENTRYPOINT ["/slidegate"]
