// The server that bench/edge_responsiveness.py needs, of draft-ietf-ippm-responsiveness: a configuration at /.well-known/nq, a small
// and an endless object, and a sink, over HTTP/2 with a certificate of its own. Says "ready" when it listens at its argument.
package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"time"
)

func certificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(1, 0, 0)}
	made, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	return tls.Certificate{Certificate: [][]byte{made}, PrivateKey: key}, err
}

func main() {
	own, err := certificate()
	if err != nil {
		log.Fatal(err)
	}
	// Sockets of a listener for multipath TCP ignore net.ipv4.tcp_notsent_lowat, also those of plain TCP.
	listen := net.ListenConfig{}
	listen.SetMultipathTCP(false)
	listener, err := listen.Listen(context.Background(), "tcp", os.Args[1])
	if err != nil {
		log.Fatal(err)
	}
	at := func(path string) string { return "https://" + os.Args[1] + path }
	http.HandleFunc("/.well-known/nq", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"version": 1, "urls": {"small_https_download_url": %q, "large_https_download_url": %q, "https_upload_url": %q}}`,
			at("/small"), at("/large"), at("/upload"))
	})
	http.HandleFunc("/small", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte{0}) })
	http.HandleFunc("/large", func(w http.ResponseWriter, _ *http.Request) {
		for block, err := make([]byte, 1<<15), error(nil); err == nil; _, err = w.Write(block) {
		}
	})
	http.HandleFunc("/upload", func(_ http.ResponseWriter, request *http.Request) { io.Copy(io.Discard, request.Body) })
	fmt.Println("ready")
	server := http.Server{
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{own}},
		// A probe waits for the frame before it: 16 kB is what RFC 9113 has by default, and Go's server allows a megabyte.
		HTTP2: &http.HTTP2Config{MaxReadFrameSize: 1 << 14},
		// Every probe that the client gives up would be a line.
		ErrorLog: log.New(io.Discard, "", 0),
	}
	log.Fatal(server.ServeTLS(listener, "", ""))
}
