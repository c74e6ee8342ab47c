# An API-only Rails application whose requests leave a job to Sidekiq: ActiveRecord before PostgreSQL, Net::HTTP. The worker requires it
# too (`sidekiq -r`). Settings come by environment.
require "logger"
require "rails"
require "active_record/railtie"
require "action_controller/railtie"
require "active_job/railtie"
require "net/http"
require "sidekiq"

BUS = { url: "redis://127.0.0.1:#{ENV["REDIS"]}/0" }
Sidekiq.configure_server { |config| config.redis = BUS }
Sidekiq.configure_client { |config| config.redis = BUS }
LOG = File.open(ENV["LOG"], "a").tap { |f| f.sync = true }
ENV["DATABASE_URL"] = "postgres://postgres@127.0.0.1:#{ENV["PG"]}/postgres?pool=5&sslmode=disable&gssencmode=disable"

class Application < Rails::Application
  config.load_defaults 6.1
  config.api_only = true
  config.eager_load = false
  config.logger = Logger.new(nil)
  config.secret_key_base = "none"
  config.hosts.clear
end

class Visit < ActiveRecord::Base
end

# What the worker does after the reply, so that nothing of it is marked; Sidekiq's heartbeat sends jobs' words on, too.
class Chore
  include Sidekiq::Job
  def perform(job)
    Net::HTTP.get(URI("http://127.0.0.1:#{ENV["DOWN"]}/work?job=#{job}"))
  end
end

class VisitsController < ActionController::API
  STATUS = { "miss" => 404, "fail" => 500 }

  def show
    rid, status = params[:rid], STATUS.fetch(params[:kind], 200)
    Visit.annotate("rid=#{rid} ").where(word: "none").first
    if status == 200
      Visit.create!(word: "rid=#{rid} ")
      # within the block it has the same connection
      Sidekiq.redis do |redis|
        redis.incr("rid:#{rid}")
        Chore.perform_async(rid)
      end
      Net::HTTP.get(URI("http://127.0.0.1:#{ENV["DOWN"]}/down?rid=#{rid}"))
    end
    LOG.write("rid=#{rid} #{status}\n")
    render plain: rid, status: status
  end
end

Application.initialize!
Rails.application.routes.draw { get ":kind", to: "visits#show" }
ActiveRecord::Schema.verbose = false
ActiveRecord::Schema.define { create_table(:visits) { |t| t.string :word } } unless Visit.table_exists?

run Rails.application if respond_to?(:run, true)
