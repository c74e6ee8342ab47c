// Names Jaeger all-in-one, so that this module has it: `scripts/install jaeger` builds it into target/jaeger.
package jaeger

import _ "github.com/jaegertracing/jaeger/cmd/all-in-one"
