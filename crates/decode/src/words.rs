//! What protocol processors say, in the numbers of the model's rows: one place for all vantages.

use crate::RowSink;
use wakepath_model::defects::id as defect;
use wakepath_model::ids::StrId;
use wakepath_model::rows::{end_how, witness};
use wakepath_protocols::{Defect, EndHow, Maker, Processor, Witness};

/// Makes processors as large as their protocol needs, and no larger.
pub(crate) struct Boxed;

impl Maker for Boxed {
    type Made = Box<dyn Processor + Send>;
    fn take<P: Processor + Send + 'static>(self, processor: P) -> Self::Made {
        Box::new(processor)
    }
}

/// Kind and value of an identifier.
pub(crate) fn witness(of: Witness) -> (u8, u64) {
    match of {
        Witness::FastCgi(n) => (witness::FASTCGI, n.into()),
        Witness::Dns(n) => (witness::DNS, n.into()),
        Witness::Http2(n) => (witness::HTTP2, n.into()),
        Witness::Kafka(n) => (witness::KAFKA, n.into()),
        Witness::Mongo(n) => (witness::MONGO, n.into()),
        Witness::Memcached(n) => (witness::MEMCACHED, n.into()),
        Witness::AmqpChannel(n) => (witness::AMQP_CHANNEL, n.into()),
        // channels are few and tags count from 1: both fit
        Witness::AmqpDelivery { channel, tag } => {
            (witness::AMQP_DELIVERY, u64::from(channel) << 48 | tag & !(0xffff << 48))
        }
        Witness::X11(n) => (witness::X11, n.into()),
        Witness::TraceParent { span, .. } => (witness::TRACEPARENT, u64::from_be_bytes(span)),
        Witness::XRequestId(hash) => (witness::X_REQUEST_ID, hash),
    }
}

/// How a message's end became known.
pub(crate) fn end(how: EndHow) -> u8 {
    match how {
        EndHow::Framed => end_how::FRAMED,
        EndHow::Close => end_how::CLOSE,
        EndHow::Turn => end_how::TURN,
        EndHow::Lost => end_how::LOST,
    }
}

/// The central list's name of a processor's defect.
pub(crate) fn defect(of: Defect) -> &'static str {
    match of {
        Defect::BorderLost | Defect::ClosedInside => defect::PROTOCOL_LOST,
        Defect::BadHead => defect::PROTOCOL_MALFORMED,
        Defect::QueueOverflow => defect::PROTOCOL_LIMIT,
        Defect::Unsupported => defect::PROTOCOL_UNKNOWN,
    }
}

/// A text that is empty where there is none.
pub(crate) fn text<S: RowSink>(sink: &mut S, text: &str) -> StrId {
    if text.is_empty() { StrId::EMPTY } else { sink.intern(text.as_bytes()) }
}
