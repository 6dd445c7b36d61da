import{Bytes as D,fromBase64 as v}from"./hubbub.js";var g=`Ping 1 0 0
Pong 2 0 0
Close 3 0 
Error 4  22
Disconnect 5  23
SessionInfo 10  24
Auth 11 1 25
SessionRestore 12 2 2
SessionRestored 13  26
Subscribe 20 3 27
Unsubscribe 21 4 28
Publish 22 5 30
Ack 23  29
History 24 6 31
ChannelReset 25  34
Presence 30 9 39
Join 31  39
Leave 32  39
Occupancy 33  40
DocumentGet 40 10 35
DocumentChange 41 11 36
DocumentUpdated 42  37
DocumentInfo 43  38
NotificationNew 50  45
NotificationRead 51  46
NotificationInfo 52 18 47
MarkNotificationAsRead 53 17 48
NotificationList 54 19 49
RPC 60 20 50
StreamEnqueue 61 21 51
TopicSubscribe 70 12 
TopicUnsubscribe 71 13 
TopicGet 72 14 
TopicAck 73 15 
ProducerOpen 74 16 
TopicSubscription 76  41
TopicMessages 77  42
TopicAcked 78  43
ProducerOpened 79  44
SetFilter 120 7 32
UnsetFilter 121 8 33`,y=`reqID i
reqID i,token,credentials c
restoreKey,reqID i,positions <52>*
reqID i,channels <53>*
reqID i,channels *
publishes <54>*
reqID i,channel,after ?,before ?,afterTime i?,beforeTime i?,epoch ?,limit i,filter j?,conversationID ?
reqID i,name,channel ?,template j?,radius d?,relevant b?,condition j?
reqID i,name,channel ?
reqID i,channel,data j?
reqID i,channel,path,since i?,epoch ?,at i?,atTime i?
reqID i?,channel,ops <55>*,expectedVersion i?,epoch ?,changeID,producer <56>
reqID i,topic,name,options <57>,start
reqID i,topic,name
reqID i,topic,name,limit i?,wait d,consumer,ackUpTo ?,after ?
reqID i,topic,name,serials *,upTo ?,consumer,giveBack b
reqID i,topic,producer
reqID i?,channel,ids *,upTo i?,all b
reqID i,channel
reqID i,channel,unread b,after i?,before i?,limit i
reqID i,method,payload p,contentType,timeout d
reqID i,stream,event,payload p,contentType
reqID i,error <58>
code,reason,reconnect b,retryAfter d
hubID,sessionID,hubAllowAnonymous b,hubAllowUserChannel b,defaultPublic b,authenticated b,protocolVersion i,userID,pingInterval i,maxMessageBytes i,expiresAt i,maxChannels i,messagesPerSecond d
reqID i,success b,userID,token,channelAuthorizations <59>*,rpcAuthorizations *,extra j,error <58>,expiresAt i
userID,authorizations <59>*,extra j,subscribedChannels *,rpcs *,sessionID,reqID i,channels <60>*,failures <61>*,patterns <62>*,expiresAt i
reqID i,subscribedChannels *,failures <61>*,channels <60>*,patterns <62>*
reqID i,unsubscribedChannels *,failures <61>*
published <63>*
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,retained b,previousSerial ?,attributes A3
reqID i,channel,messages <30>*,epoch,head,recovered b,more b,error <58>,next ?
reqID i,name,channel ?
reqID i,name,channel ?,count i
channel,epoch,serial,recovered b
reqID i,channel,epoch,version i,ts i,document v,updates <37>*,more b,error <58>
reqID i,channel,success b,epoch,version i?,ts i,duplicate b,error <58>,opIndex i?,reason ?
channel,epoch,version i,ts i,author ?,changeID,ops <55>*
channel,epoch,version i,ts i,bytes i
channel,presence <65>*,reqID i,error <58>
channel,count i
reqID i,answer,topic,name,options <57>,epoch,floor ?,head ?,lag i?,handedOut i?,createdAt i?,redeliveries i?,deadLetters i?,missed i?,new b
reqID i,answer,topic,name,messages <66>*
reqID i,answer,topic,name,floor
reqID i,topic,producer,fence,sequence
channel,revision i,notification <67>
channel,revision i,ids *,upTo i?,readAt i,readBy
reqID i,channel,epoch,revision i,unread i,total i,newest i
reqID i,success b,marked i,unread i,unknown *,error <58>
reqID i,channel,notifications <67>*,more b,epoch,revision i,unread i,total i,newest i
reqID i,payload p,contentType
reqID i,msgID
channel,epoch,serial,documentVersion i?,documentEpoch ?
channel,timestamp i?,serial ?,epoch ?,documentVersion i?,documentEpoch ?,byPattern b,presence j?,token
channel,event,payload p,extra <68>,reqID i?,contentType,producer <56>,attributes A,securityToken,idempotencyKey
op,path,from ?,value v
id,sequence,fence ?
shared b?,leaseSeconds d?,maxUnacknowledged i?,maxDeliveries i?,deadLetters ?
code,message,retry b,retryAfter d
channel,publish b,subscribe b
channel,epoch,serial,recovered b
channel,error <58>
pattern,matches i,recovered b
reqID i,success b,msgID ?,channelSerial ?,error <58>,duplicate b
subtype,author,sender,receiver,conversationID,refersTo,priority i?,relevantUntil i?,ttl i?,language,location j,headers j,deliveryPolicy
sessionID,userID,extra j,ts i,data j?
channel,event,payload p,msgID,ts i,channelSerial ?,contentType,publisher,deliveries i3,redelivered b,attributes A
id,ts i,event,payload p,contentType,author,expiresAt i?,read b,readAt i?,readBy
store b,push b,retain b,transient b,pushOptions j`;var u="the frame is cut",h=new TextEncoder,b=new TextDecoder("utf-8",{fatal:!0});function N(){let r=y.split(`
`).map(k),e=new Map,t=[];for(let n of g.split(`
`)){let[i,s,a,o]=n.split(" "),c={name:i,number:Number(s),asked:r[Number(a)],told:r[Number(o)]};e.set(i,c),t[c.number]=c}return{subprotocol:"hubbub.proto.v1",encode(n){let i=new p(r);for(let[s,a]of n){let{number:o,asked:c}=e.get(s);i.block(1,()=>{i.tag(1,0),i.varint(o),i.block(2,()=>i.message(c,a))})}return i.finish()},decode(n){let i=new Uint8Array(n),s=new f(i,r),a=[];for(;s.at<i.length;){s.varint();let o=s.varint()+s.at,c,d={};for(;s.at<o;){let l=s.varint();l===8?c=t[s.varint()]:l===18&&c?d=s.message(c.told,s.varint()+s.at):s.skip(l&7)}c&&a.push([c.name,d])}return a}}}function k(r){let e=[],t=0,n=(r?r.split(","):[]).map(i=>{let[,s,a,o,c,d,l]=/^(\w+) ?(?:(\w)|<(\d+)>)?(\??)(\*?)(\d*)$/.exec(i);t+=Number(l||1);let m={name:s,kind:a??(o?"m":"s"),message:Number(o),number:t,optional:!!c,repeated:d==="*"};return e[t]=m,m});return{fields:n,byNumber:e,repeated:n.filter(i=>i.repeated).map(i=>i.name)}}var p=class{#e=new Uint8Array(256);#t=0;#i;constructor(e){this.#i=e}finish(){return this.#e.slice(0,this.#t)}message({fields:e},t){for(let n of e){if(n.kind==="A"){let s=this.#i[64];s.fields.some(({name:a})=>t[a]!==void 0)&&this.block(n.number,()=>this.message(s,t));continue}let i=n.name==="contentType"?A(t):t[n.name];if(i!=null)if(n.repeated)for(let s of i)this.#r(n,s);else(n.optional||n.kind==="m"||n.kind==="v"||i!==0&&i!==""&&i!==!1)&&this.#r(n,i)}}#r({kind:e,number:t,message:n},i){switch(e){case"s":this.bytes(t,h.encode(i));break;case"b":case"i":this.tag(t,0),this.varint(Number(i));break;case"d":this.double(t,i);break;case"j":this.bytes(t,h.encode(JSON.stringify(i)));break;case"p":case"c":{let s=q(i);s.length&&this.bytes(t,s);break}case"v":this.block(t,()=>this.#s(i));break;default:this.block(t,()=>this.message(this.#i[n],i))}}#s(e){if(e===null)this.tag(2,0,1);else if(typeof e=="boolean")this.tag(3,0,Number(e));else if(typeof e=="string")this.bytes(6,h.encode(e));else if(typeof e=="number")Number.isSafeInteger(e)?this.tag(4,0,e):this.double(5,e);else if(Array.isArray(e)){this.tag(1,0,1);for(let t of e)this.block(8,()=>this.#s(t))}else if(typeof e.$bytes=="string"&&Object.keys(e).length===1)this.bytes(7,v(e.$bytes));else{this.tag(1,0,2);let t=Object.keys(e);for(let s of t)this.block(8,()=>this.#s(e[s]));let[n]=t,i=t.length===1&&/^\$+bytes$/.test(n);for(let s of t)this.bytes(9,h.encode(i?s.slice(1):s))}}tag(e,t,n){this.varint(e*8+t),n!==void 0&&this.varint(n)}varint(e){if(this.#n(10),e<0){let t=BigInt.asUintN(64,BigInt(e));for(;t>127n;t>>=7n)this.#e[this.#t++]=Number(t&127n)|128;this.#e[this.#t++]=Number(t);return}for(;e>127;e=Math.floor(e/128))this.#e[this.#t++]=e%128|128;this.#e[this.#t++]=e}double(e,t){this.tag(e,1),this.#n(8),new DataView(this.#e.buffer).setFloat64(this.#t,t,!0),this.#t+=8}bytes(e,t){this.tag(e,2,t.length),this.#n(t.length),this.#e.set(t,this.#t),this.#t+=t.length}block(e,t){let n=this.#t;this.tag(e,2);let i=this.#t;t();let s=this.#e.slice(i,this.#t);this.#t=n,s.length&&this.bytes(e,s)}#n(e){if(this.#t+e<=this.#e.length)return;let t=new Uint8Array(Math.max(this.#e.length*2,this.#t+e));t.set(this.#e),this.#e=t}};function q(r){return r.json!==void 0?h.encode(JSON.stringify(r.json)):r.text!==void 0?h.encode(r.text):r.base64 instanceof D?r.base64.bytes:typeof r.base64=="string"?v(r.base64):r.base64}function A({contentType:r,payload:e}){return r||!e?r:e.json!==void 0?"application/json":e.text!==void 0?"text/plain":void 0}var f=class{at=0;#e;#t;#i;constructor(e,t){this.#e=e,this.#t=new DataView(e.buffer,e.byteOffset,e.length),this.#i=t}message({byNumber:e,repeated:t},n,i={}){if(n>this.#e.length)throw new RangeError(u);for(let s of t)i[s]??=[];for(;this.at<n;){let s=this.varint(),a=e[s>>>3];if(!a){this.skip(s&7);continue}let{name:o,kind:c}=a;c==="A"?this.message(this.#i[64],this.varint()+this.at,i):a.repeated?i[o].push(this.#r(a)):i[o]=this.#r(a)}return i.payload instanceof Uint8Array&&(i.payload=T(i)),i}#r({kind:e,message:t}){switch(e){case"s":return this.#a();case"b":return this.varint()!==0;case"i":return this.varint();case"d":return this.#c();case"j":return JSON.parse(this.#a());case"p":case"c":return this.#o();case"v":return this.#s(this.varint()+this.at);default:return this.message(this.#i[t],this.varint()+this.at)}}#s(e){let t=0,n=null,i=[],s=[];for(;this.at<e;){let o=this.varint();o===8?t=this.varint():o===24?n=this.varint()!==0:o===32?n=this.varint():o===41?n=this.#c():o===50?n=this.#a():o===58?n={$bytes:new D(this.#o()).toJSON()}:o===66?i.push(this.#s(this.varint()+this.at)):o===74?s.push(this.#a()):this.skip(o&7)}if(t===0)return n;if(t===1)return i;let a=s.length===1&&/^\$+bytes$/.test(s[0]);return Object.fromEntries(s.map((o,c)=>[a?`$${o}`:o,i[c]]))}varint(){let e=this.at,t=0;for(let i=1;i<2**49;i*=128){let s=this.#n();if(t+=(s&127)*i,s<128)return t}this.at=e;let n=0n;for(let i=0n;;i+=7n){let s=this.#n();if(n+=BigInt(s&127)<<i,s<128)return Number(BigInt.asIntN(64,n))}}#n(){if(this.at>=this.#e.length)throw new RangeError(u);return this.#e[this.at++]}#o(){let e=this.varint(),t=this.at;if(this.at+=e,this.at>this.#e.length)throw new RangeError(u);return this.#e.subarray(t,this.at)}#c(){return this.at+=8,this.#t.getFloat64(this.at-8,!0)}#a(){return b.decode(this.#o())}skip(e){e===0?this.varint():e===2?this.#o():this.at+=e===1?8:4}};function T(r){let e=r.contentType??"";return/^application\/([^;]*\+)?json\b/.test(e)?(e==="application/json"&&delete r.contentType,{json:JSON.parse(b.decode(r.payload))}):e.startsWith("text/")?(e==="text/plain"&&delete r.contentType,{text:b.decode(r.payload)}):{base64:r.payload}}export{N as protobuf};
